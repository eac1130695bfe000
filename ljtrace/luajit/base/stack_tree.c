/* stack_tree.c - numbers for stacks: each is a node, a stack without its innermost frame and that frame. (no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The nodes are in the order of their numbers, so that few nodes are in few pages. They are found by lists, of which there are
 * about as many as nodes.
 */
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/table.h"
#include <string.h>

enum { LEAST_BITS = 8, MOST_BITS = 17, MOST_NODES = 1 << MOST_BITS };
_Static_assert((int)MOST_NODES <= (int)RING_NODES, "the collector has room for each number");

struct node {
    uint64_t ip;
    uint32_t parent;
    uint32_t next; /* the next node of its list; 0 = none */
};

TABLE(struct node, s_nodes, MOST_NODES + 1); /* by their numbers, from 1 */
TABLE(uint32_t, s_lists, MOST_NODES);        /* the first node of each, by a hash; 2^s_bits are in use */
static uint32_t s_bits = LEAST_BITS, s_count, s_generation;

static void empty_lists(uint32_t bits)
{
    s_bits = bits;
    memset(s_lists, 0, sizeof *s_lists << bits);
}

void stack_tree_restart(void)
{
    empty_lists(LEAST_BITS);
    s_count = 0;
    s_generation++;
}

uint32_t stack_tree_generation(void)
{
    return s_generation;
}

void stack_tree_reserve(uint32_t n)
{
    if (s_count + n > MOST_NODES)
        stack_tree_restart();
}

static uint32_t *list_of(uint32_t parent, uint64_t ip)
{
    const uint64_t hash = (ip ^ parent * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
    return &s_lists[hash >> (64 - s_bits)];
}

static void add_to_list(uint32_t number)
{
    struct node *n = &s_nodes[number];
    uint32_t *list = list_of(n->parent, n->ip);
    n->next = *list;
    *list = number;
}

static void make_more_lists(void)
{
    empty_lists(s_bits + 1);
    for (uint32_t number = 1; number <= s_count; number++)
        add_to_list(number);
}

static uint32_t child(uint32_t parent, uint64_t ip)
{
    for (uint32_t number = *list_of(parent, ip); number; number = s_nodes[number].next)
        if (s_nodes[number].ip == ip && s_nodes[number].parent == parent)
            return number;
    if (s_count == 1U << s_bits && s_bits < MOST_BITS)
        make_more_lists();
    s_nodes[++s_count] = (struct node){.ip = ip, .parent = parent};
    add_to_list(s_count);
    HOST_PUT(node, .number = s_count, .parent = parent, .ip = ip);
    return s_count;
}

void stack_tree_find(const uint64_t *ips, uint32_t n, uint32_t *node, uint32_t known)
{
    node[n] = 0;
    for (uint32_t i = n - known; i-- > 0;)
        node[i] = child(node[i + 1], ips[i]);
}
