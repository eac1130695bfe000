/* stack_tree.c - numbers for stacks: each is a node, a stack without its innermost frame and that frame. (no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/table.h"
#include <string.h>

enum { SLOT_BITS = 18, SLOTS = 1 << SLOT_BITS, MOST_NODES = SLOTS / 2 };
_Static_assert((int)MOST_NODES <= (int)RING_NODES, "the collector has room for each number");

struct node {
    uint64_t ip;
    uint32_t parent;
    uint32_t serial; /* s_before + its number; if that is too small, the slot is free */
};

TABLE(struct node, s_nodes, SLOTS); /* by a hash, with linear probing */
static uint32_t s_before, s_count, s_generation;

/* Objects may be unmapped often, so the table is not cleared. */
void stack_tree_restart(void)
{
    s_before += s_count;
    s_count = 0;
    s_generation++;
    if (s_before < UINT32_MAX - MOST_NODES)
        return;
    memset(s_nodes, 0, TABLE_BYTES(s_nodes));
    s_before = 0;
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

static uint32_t child(uint32_t parent, uint64_t ip)
{
    const uint64_t hash = (ip ^ parent * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
    uint32_t i = (uint32_t)(hash >> (64 - SLOT_BITS));
    for (;; i = (i + 1) % SLOTS) {
        struct node *n = &s_nodes[i];
        const bool is_free = n->serial <= s_before;
        if (!is_free && n->ip == ip && n->parent == parent)
            return n->serial - s_before;
        if (!is_free)
            continue;
        *n = (struct node){ip, parent, s_before + ++s_count};
        HOST_PUT(node, .number = s_count, .parent = parent, .ip = ip);
        return s_count;
    }
}

void stack_tree_find(const uint64_t *ips, uint32_t n, uint32_t *node, uint32_t known)
{
    node[n] = 0;
    for (uint32_t i = n - known; i-- > 0;)
        node[i] = child(node[i + 1], ips[i]);
}
