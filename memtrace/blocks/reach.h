/* reach.h - which blocks the program can still reach when it ends; a search of the graph of pointers.
 *
 * A node is a block, by its number from 0. Pointers are entered one by one; then the search says of each node
 * how it is reached (enum mt_reach). The classes are those of memcheck, which its manual describes ("Memory
 * leak detection"): a chain of pointers to the beginnings of blocks from outside makes a block reachable, one
 * with a pointer to somewhere within a block makes it possibly lost. Of the rest, a block to which another
 * lost block leads is indirectly lost. Of blocks that lead only to each other in a circle, that with the
 * lowest number is the lost one.
 *
 * O(nodes + pointers) in time and memory; pointers from outside take no memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_REACH_H
#define MEMTRACE_BLOCKS_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reach_edge {
    uint32_t from, to; /* to: REACH_INTERIOR for a pointer to somewhere within the block */
};
#define REACH_INTERIOR 0x80000000u

struct reach {
    struct reach_edge *edges;
    size_t count, room;
    uint8_t *reached; /* by node: enum mt_reach + 1; 0 = not reached yet */
    uint32_t nodes;
};

/* For nodes 0 to nodes - 1, at most 2^31 of them. False when out of memory. */
bool reach_init(struct reach *r, uint32_t nodes);
void reach_free(struct reach *r);

/* A pointer from outside leads to a node. */
void reach_root(struct reach *r, uint32_t to, bool interior);
/* A pointer in one node leads to another, or to itself. False when out of memory. */
bool reach_edge(struct reach *r, uint32_t from, uint32_t to, bool interior);

/* All pointers are known: reach_of holds from here on. `counts` says by node whether it is a block at all.
 * False when out of memory. */
bool reach_search(struct reach *r, const bool *counts);

/* How a node is reached (enum mt_reach). */
static inline uint8_t reach_of(const struct reach *r, uint32_t node)
{
    return (uint8_t)(r->reached[node] - 1);
}

#endif
