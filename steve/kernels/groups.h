/* groups.h - lives of blocks added up by a number they have: stack, thread, type.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_GROUPS_H
#define STEVE_GROUPS_H

#include "steve/kernels/lives.h"

enum groups_key { GROUPS_BY_STACK, GROUPS_BY_THREAD, GROUPS_BY_FREE_THREAD, GROUPS_BY_TYPE };

/* Sums over the blocks of a group. Only uint64_t, so that it can be seen as an array with named columns. */
struct group {
    uint64_t blocks, resizes;
    uint64_t bytes;                   /* asked for by New and Resizes */
    uint64_t size;                    /* at the end of life */
    uint64_t frees, foreign;          /* foreign: freed by another thread than made it */
    uint64_t live_blocks, live_bytes; /* never freed */
    uint64_t loads, stores, modifies, bytes_read, bytes_written;
    uint64_t used;          /* bytes */
    uint64_t shared;        /* blocks */
    uint64_t lifetimes;     /* operations, of all blocks */
    uint64_t most_bytes;    /* the largest block's */
    uint64_t most;          /* the most bytes that a block ever had */
    uint64_t resized;       /* blocks that were resized; of these: */
    uint64_t moves, copied; /* as in struct life */
    uint64_t first_size, last_size;
    uint64_t most_resizes;     /* of one block */
    uint64_t peak, peak_bytes; /* bytes live at that peak; of an older peak: see groups_settle */
};

struct groups {
    struct group *rows; /* by key */
    size_t n, room;
};

void groups_init(struct groups *g);
void groups_free(struct groups *g);
/* keep: a byte for each life, NULL = all. False when out of memory. */
bool groups_add(struct groups *g, enum groups_key key, const struct life *lives, const uint8_t *keep,
                size_t n);
/* Add n settled rows, each with its key, of another part of a trace; peak: the number here of the peak that
 * they are of, 0 if it is no peak here. False when out of memory. */
bool groups_merge(struct groups *g, const uint32_t *keys, const struct group *rows, size_t n, uint64_t peak);
/* All lives are added: forget what was live at peaks before the last, whose number is given. */
void groups_settle(struct groups *g, uint64_t peak);

#endif
