/* summary.h - totals of a trace: events, bytes, blocks, and where blocks were made.
 *
 * Byte counts are of what the program asked for. A Resize counts as a free of the old and an allocation of
 * the new size in the bytes, not in the blocks; the peak does not see both at once. Sites are allocation
 * stacks; a resized block belongs to the stack that resized it. Memory: O(live blocks + stacks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_SUMMARY_H
#define STEVE_SUMMARY_H

#include "memtrace/memtrace.h"

/* One allocation stack. */
struct summary_stack {
    uint64_t news, resizes;           /* blocks made, blocks resized, here */
    uint64_t bytes;                   /* asked for by those */
    uint64_t live_blocks, live_bytes; /* now; at the end: never freed */
};

struct summary_block {
    uint64_t size;
    uint32_t stack;
};

struct summary {
    uint64_t events[MT_KINDS];
    uint64_t accessed[MT_KINDS]; /* bytes, by kind of access */
    uint64_t allocated, freed;   /* bytes */
    uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
    uint64_t lost;                /* events missing where the trace says so */
    uint64_t last_event;          /* guest instructions at the last event */
    struct summary_block *blocks; /* by slot */
    size_t room;
    struct summary_stack *stacks; /* by stack id */
    size_t n_stacks;
    uint64_t threads[1024]; /* bit set of thread numbers */
};

void summary_init(struct summary *s);
/* stacks: how many the reader knows. False when out of memory. */
bool summary_feed(struct summary *s, const struct mt_event *events, size_t n, uint32_t stacks);
unsigned summary_threads(const struct summary *s);
void summary_free(struct summary *s);

#endif
