/* block_graph.c - searches the graph of pointers between blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/blocks/block_graph.h"
#include "memtrace/base/array.h"
#include "memtrace/memtrace.h"
#include <stdlib.h>

/* Values of `reached` besides enum mt_reach + 1. */
enum {
    NOT_YET = 0,
    SEEN = UINT8_MAX, /* lost; the class is not known yet */
    FULL = MT_REACH_FULL + 1,
    POSSIBLE = MT_REACH_POSSIBLE + 1,
    INDIRECT = MT_REACH_INDIRECT + 1,
    LOST = MT_REACH_LOST + 1
};

/* The pointers, sorted by the node that contains them, and the nodes that the search has still to process. */
struct search {
    uint8_t *reached;
    uint32_t *first; /* by node: index of its first pointer; one more at the end */
    uint32_t *to;
    uint32_t *stack; /* each node is pushed at most once for each class */
    size_t waiting;
    uint32_t *next;     /* by node: index of the next pointer to follow in a depth-first search */
    uint32_t *finished; /* the lost nodes, in the order in which the depth-first search finished them */
    size_t finished_count;
};

bool block_graph_init(struct block_graph *r, uint32_t nodes)
{
    *r = (struct block_graph){.nodes = nodes, .reached = calloc((size_t)nodes + 1, 1)};
    return r->reached != NULL;
}

void block_graph_free(struct block_graph *r)
{
    free(r->edges);
    free(r->reached);
    *r = (struct block_graph){0};
}

void block_graph_root(struct block_graph *r, uint32_t to, bool interior)
{
    if (r->reached[to] != FULL)
        r->reached[to] = interior ? POSSIBLE : FULL;
}

bool block_graph_edge(struct block_graph *r, uint32_t from, uint32_t to, bool interior)
{
    if (from == to)
        return true;
    if (!array_reserve(&r->edges, &r->room, r->count + 1, sizeof *r->edges))
        return false;
    r->edges[r->count++] = (struct block_graph_edge){from, to | (interior ? EDGE_INTERIOR : 0)};
    return true;
}

/* Sort the pointers by the node that contains them: count those of each node, then store each at its place.
 * Meanwhile, the place of a node's next pointer is in the following element of `first`. */
static bool order(struct search *s, const struct block_graph *r)
{
    s->reached = r->reached;
    s->first = calloc((size_t)r->nodes + 2, sizeof *s->first);
    s->to = malloc((r->count + 1) * sizeof *s->to);
    s->stack = malloc(((size_t)r->nodes + 1) * sizeof *s->stack);
    if (!s->first || !s->to || !s->stack || r->count > UINT32_MAX)
        return false;
    for (size_t i = 0; i < r->count; i++)
        s->first[r->edges[i].from + 2]++;
    for (uint32_t i = 2; i < r->nodes + 2; i++)
        s->first[i] += s->first[i - 1];
    for (size_t i = 0; i < r->count; i++)
        s->to[s->first[r->edges[i].from + 1]++] = r->edges[i].to;
    return true;
}

static void put(struct search *s, uint32_t node, uint8_t class)
{
    s->reached[node] = class;
    s->stack[s->waiting++] = node;
}

/* Continue from the nodes on the stack, along pointers to the beginnings of blocks, for FULL. */
static void spread_full(struct search *s)
{
    while (s->waiting) {
        uint32_t node = s->stack[--s->waiting];
        for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++)
            if (!(s->to[i] & EDGE_INTERIOR) && s->reached[s->to[i]] != FULL)
                put(s, s->to[i], FULL);
    }
}

/* Continue from the nodes on the stack, along all pointers: nodes of class `open` change to another class. */
static void spread(struct search *s, uint8_t open, uint8_t class)
{
    while (s->waiting) {
        uint32_t node = s->stack[--s->waiting];
        for (uint32_t i = s->first[node]; i < s->first[node + 1]; i++)
            if (s->reached[s->to[i] & ~EDGE_INTERIOR] == open)
                put(s, s->to[i] & ~EDGE_INTERIOR, class);
    }
}

static void find_reachable(struct search *s, uint32_t nodes)
{
    for (uint32_t node = 0; node < nodes; node++)
        if (s->reached[node] == FULL)
            s->stack[s->waiting++] = node;
    spread_full(s);
}

/* Find the nodes that are reached by an interior pointer, from outside or from a reachable block, and all nodes
 * that follow from them. */
static void find_possible(struct search *s, uint32_t nodes)
{
    for (uint32_t node = 0; node < nodes; node++)
        if (s->reached[node] == POSSIBLE || s->reached[node] == FULL)
            s->stack[s->waiting++] = node;
    spread(s, NOT_YET, POSSIBLE);
}

/* Search depth-first from a node. */
static void finish_from(struct search *s, uint32_t start)
{
    put(s, start, SEEN);
    while (s->waiting) {
        const uint32_t node = s->stack[s->waiting - 1];
        if (s->first[node] + s->next[node] == s->first[node + 1]) {
            s->finished[s->finished_count++] = node;
            s->waiting--;
            continue;
        }
        const uint32_t to = s->to[s->first[node] + s->next[node]++] & ~EDGE_INTERIOR;
        if (s->reached[to] == NOT_YET)
            put(s, to, SEEN);
    }
}

/* Of the lost nodes, the last one that the depth-first search finished is reached only from nodes in a cycle with
 * it. The same holds for the last one of those that are not reached from it, and so on. This is the algorithm of
 * Kosaraju and Sharir for strongly connected components. */
static bool find_lost(struct search *s, uint32_t nodes, const bool *counts)
{
    s->next = calloc((size_t)nodes + 1, sizeof *s->next);
    s->finished = malloc(((size_t)nodes + 1) * sizeof *s->finished);
    if (!s->next || !s->finished)
        return false;
    for (uint32_t node = 0; node < nodes; node++)
        if (counts[node] && s->reached[node] == NOT_YET)
            finish_from(s, node);
    while (s->finished_count) {
        const uint32_t node = s->finished[--s->finished_count];
        if (s->reached[node] != SEEN)
            continue;
        put(s, node, LOST);
        spread(s, SEEN, INDIRECT);
    }
    return true;
}

bool block_graph_search(struct block_graph *r, const bool *counts)
{
    struct search s = {0};
    bool good = order(&s, r);
    if (good) {
        find_reachable(&s, r->nodes);
        find_possible(&s, r->nodes);
        good = find_lost(&s, r->nodes, counts);
    }
    free(s.first);
    free(s.to);
    free(s.stack);
    free(s.next);
    free(s.finished);
    return good;
}
