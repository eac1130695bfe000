/* reach.h - determines which blocks the program can still reach when it ends, by a search of the graph of pointers.
 *
 * A node is a block, numbered from 0. Pointers are added one by one. Then the search determines how each node is
 * reached (enum mt_reach). The classes are those of memcheck, described in its manual ("Memory leak detection"): a
 * chain of pointers to the beginnings of blocks, which starts outside of all blocks, makes a block reachable; a chain
 * with an interior pointer makes it possibly lost. Of the rest, a block that is reached from another lost block is
 * indirectly lost. Of blocks that are reached only from each other in a cycle, the one with the lowest number is lost
 * and the others are indirectly lost.
 *
 * Time and memory are O(nodes + pointers). Pointers from outside take no memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_REACH_H
#define MEMTRACE_BLOCKS_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reach_edge {
    uint32_t from, to; /* to: with REACH_INTERIOR for an interior pointer */
};
#define REACH_INTERIOR 0x80000000u

struct reach {
    struct reach_edge *edges;
    size_t count, room;
    uint8_t *reached; /* by node: enum mt_reach + 1; 0 = not reached yet */
    uint32_t nodes;
};

/* Begin with nodes 0 to nodes - 1, at most 2^31 of them. False when out of memory. */
bool reach_init(struct reach *r, uint32_t nodes);
void reach_free(struct reach *r);

/* Add a pointer from outside of all nodes. */
void reach_root(struct reach *r, uint32_t to, bool interior);
/* Add a pointer from one node to another or to itself. False when out of memory. */
bool reach_edge(struct reach *r, uint32_t from, uint32_t to, bool interior);

/* Search, after all pointers were added; reach_of is valid afterwards. `counts` says which nodes are blocks. False
 * when out of memory. */
bool reach_search(struct reach *r, const bool *counts);

/* How a node is reached (enum mt_reach). */
static inline uint8_t reach_of(const struct reach *r, uint32_t node)
{
    return (uint8_t)(r->reached[node] - 1);
}

#endif
