/* block_graph.h - the graph of pointers between blocks: which of them the program can still reach when it ends.
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
#ifndef MEMTRACE_BLOCKS_BLOCK_GRAPH_H
#define MEMTRACE_BLOCKS_BLOCK_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_graph_edge {
    uint32_t from, to; /* to: with EDGE_INTERIOR for an interior pointer */
};
#define EDGE_INTERIOR 0x80000000u

struct block_graph {
    struct block_graph_edge *edges;
    size_t count, room;
    uint8_t *reached; /* by node: enum mt_reach + 1; 0 = not reached yet */
    uint32_t nodes;
};

/* Begin with nodes 0 to nodes - 1, at most 2^31 of them. False when out of memory. */
bool block_graph_init(struct block_graph *r, uint32_t nodes);
void block_graph_free(struct block_graph *r);

/* Add a pointer from outside of all nodes. */
void block_graph_root(struct block_graph *r, uint32_t to, bool interior);
/* Add a pointer from one node to another or to itself. False when out of memory. */
bool block_graph_edge(struct block_graph *r, uint32_t from, uint32_t to, bool interior);

/* Search, after all pointers were added; reach_of is valid afterwards. `counts` says which nodes are blocks. False
 * when out of memory. */
bool block_graph_search(struct block_graph *r, const bool *counts);

/* How a node is reached (enum mt_reach). */
static inline uint8_t block_graph_reach(const struct block_graph *r, uint32_t node)
{
    return (uint8_t)(r->reached[node] - 1);
}

#endif
