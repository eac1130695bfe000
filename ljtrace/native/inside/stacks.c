/* stacks.c - numbers for stacks of C.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The numbers are those of ljtrace/luajit/base/stack_tree.h. The latest stack with the same innermost frames is kept:
 * the next one is the same, or has most of its outer frames. Addresses are named before their node is written.
 */
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/table.h"

#include <string.h>

enum { MOST = RECORDING_MOST_FRAMES + 1, SLOT_BITS = 9, HASHED = 4 };

/* A stack, at the end of both arrays. */
struct latest {
    uint32_t depth, generation;
    uint64_t ips[MOST];
    uint32_t node[MOST + 1];
};
TABLE(struct latest, s_latest, 1 << SLOT_BITS); /* by the innermost frames */

static struct latest *latest_like(const uint64_t *ips, uint32_t n)
{
    uint64_t sum = n;
    for (uint32_t i = 0; i < n && i < HASHED; i++)
        sum = sum * 31 + ips[i];
    return &s_latest[lt_hash_slot(sum, SLOT_BITS)];
}

/* How many frames, from the outermost on, does it have in common with this one? */
static uint32_t common(const struct latest *l, const uint64_t *ips, uint32_t n)
{
    const uint32_t most = l->generation != stack_tree_generation() ? 0 : n < l->depth ? n : l->depth;
    uint32_t same = 0;
    while (same < most && ips[n - 1 - same] == l->ips[MOST - 1 - same])
        same++;
    return same;
}

struct raw_stack native_stack(const uint64_t *ips, uint32_t n)
{
    if (!n || n > MOST)
        return (struct raw_stack){0};
    struct latest *l = latest_like(ips, n);
    uint32_t known = common(l, ips, n);
    if (known == n && l->depth == n)
        return (struct raw_stack){.number = l->node[MOST - n]};
    stack_tree_reserve(n);
    if (l->generation != stack_tree_generation())
        known = 0;
    const uint32_t fresh = n - known;
    for (uint32_t i = 0; i < fresh; i++)
        native_name(ips[i]);
    memcpy(l->ips + MOST - n, ips, fresh * sizeof *ips);
    stack_tree_find(ips, n, l->node + MOST - n, known);
    l->depth = n;
    l->generation = stack_tree_generation();
    return (struct raw_stack){.number = l->node[MOST - n]};
}

void native_stacks_restart(void)
{
    stack_tree_restart();
    native_names_restart();
}
