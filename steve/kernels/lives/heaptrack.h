/* heaptrack.h - the allocations and frees of a trace as heaptrack's lines; steve/export/heaptrack.py describes the format.
 *
 * Written here are times, kinds of allocation (a size and a stack), allocations and frees. What a stack is the caller
 * writes when it is met first, and returns the number that it has in the file. Memory: O(live blocks + kinds).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_HEAPTRACK_H
#define STEVE_KERNELS_LIVES_HEAPTRACK_H

#include "memtrace/memtrace.h"

struct heaptrack_kind {
    uint64_t size;
    uint32_t stack;
    uint32_t number; /* in the file, plus 1; 0 = no kind is here */
};

struct heaptrack {
    uint32_t *live; /* by slot: number of the block's kind, plus 1; 0 = none lives there */
    size_t live_room;
    struct heaptrack_kind *kinds; /* a hash table with linear probing, at most half full */
    size_t kinds_mask, n_kinds;
    uint32_t *numbers; /* by stack: its number in the file, plus 1; 0 = not written yet */
    size_t numbers_room;
    char *text; /* lines that the caller has not yet taken; n_text = 0: it has */
    size_t n_text, text_room;
    uint64_t milliseconds; /* that are written */
    bool begun;            /* of the next event all that comes before its stack is written */
};

/* All return false, or SIZE_MAX, when out of memory. */
bool heaptrack_init(struct heaptrack *h);
void heaptrack_free(struct heaptrack *h);
/* Write events, at a time, up to one whose stack has no number, or all n: how many. After heaptrack_number the walk
 * goes on with that one. */
size_t heaptrack_feed(struct heaptrack *h, const struct mt_event *events, size_t n, uint64_t milliseconds);
bool heaptrack_number(struct heaptrack *h, uint32_t stack, uint32_t number);
/* It is so late; nothing is written if it was before. */
bool heaptrack_time(struct heaptrack *h, uint64_t milliseconds);

#endif
