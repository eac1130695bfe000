/* sharing.h - memory that several threads access, block by block and line by line.
 *
 * Each line of 64 bytes of the address space has an owner: the thread that accessed it last. An access by
 * another thread is a transfer if it writes, or if the owner has written since it got the line; that is when
 * a cache that keeps lines coherent has to move one. The transfer is false sharing if no byte of the access
 * was accessed by the former owner since it got the line: had the bytes been apart, nothing would have moved.
 * What is read by many and written by none is not moved. An order of the threads that the trace does not have
 * cannot be seen: Valgrind runs one thread at a time, so a program run without it may transfer more often.
 *
 * A trace may be read in parts: sharingparts.h.
 *
 * Counted for the stack that made the accessed block: blocks that several threads touched, accesses to them,
 * transfers, false ones. Memory O(live blocks + lines accessed + stacks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_SHARING_H
#define STEVE_SHARING_H

#include "memtrace/memtrace.h"
#include "steve/kernels/livemap.h"

/* All uint64_t: seen as an array with named columns. By stack. */
struct sharing_row {
    uint64_t blocks, shared, shared_bytes; /* made; touched by several threads; their bytes then */
    uint64_t accesses, foreign; /* foreign: by another thread than the last that touched the block */
    uint64_t transfers, false_transfers;
};

struct sharing_line {
    uint64_t bytes; /* accessed by the owner since it got the line: a bit for each */
    uint16_t owner;
    bool written; /* by the owner */
};

struct sharing_block {
    uint64_t size;
    uint32_t stack;
    uint16_t thread; /* that touched it last; 0 = none yet */
    uint16_t first;  /* of an earlier one: that touched it first in this part */
    bool live, shared;
    bool earlier;                     /* made before this part of a trace */
    uint64_t first_size, shared_size; /* its bytes when it was touched first in it, and when shared there */
};

struct sharing {
    struct sharing_row *rows;
    size_t rows_room;
    struct sharing_block *blocks; /* by slot */
    size_t blocks_room;
    struct livemap map; /* from line numbers to lines */
    struct sharing_line *lines;
    size_t lines_room;
    bool part;                /* set by the caller before anything is fed */
    struct sharing_run *runs; /* of a part, by index of the line */
    size_t runs_room;
    struct sharing_piece *pieces; /* of a part */
    size_t n_pieces, pieces_room;
};

bool sharing_init(struct sharing *s); /* false: out of memory; so below */
void sharing_free(struct sharing *s);
bool sharing_feed(struct sharing *s, const struct mt_event *events, size_t n);

/* For sharingparts.c. The record of a line; NULL when out of memory. A thread accesses bytes of it. */
struct sharing_line *sharing_line_at(struct sharing *s, uint64_t number);
void sharing_take_line(struct sharing_line *line, struct sharing_row *row, uint16_t thread, uint64_t bytes,
                       bool writes);

#endif
