/* stacks.c - numbers for stacks of C.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The numbers are those of ljtrace/luajit/stack/tree.h. The latest stack is kept: the next one has most of its outer frames.
 * Addresses are named before their node is written.
 */
#include "ljtrace/luajit/stack/tree.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/table.h"

#include <string.h>

enum { MOST = RECORDING_MOST_FRAMES + 1 };

/* The latest stack, at the end of both arrays. */
struct latest {
    uint64_t ips[MOST];
    uint32_t node[MOST + 1];
    uint32_t depth, generation;
};
TABLE(struct latest, s_latest, 1);

/* How many frames, from the outermost on, does the latest stack have in common with this one? */
static uint32_t common(const uint64_t *ips, uint32_t n)
{
    const struct latest *l = s_latest;
    const uint32_t most = l->generation != lt_tree_generation() ? 0 : n < l->depth ? n : l->depth;
    uint32_t same = 0;
    while (same < most && ips[n - 1 - same] == l->ips[MOST - 1 - same])
        same++;
    return same;
}

struct raw_stack native_stack(const uint64_t *ips, uint32_t n)
{
    struct latest *l = s_latest;
    if (!n || n > MOST)
        return (struct raw_stack){0};
    lt_tree_reserve(n);
    const uint32_t known = common(ips, n), fresh = n - known;
    for (uint32_t i = 0; i < fresh; i++)
        native_name(ips[i]);
    memcpy(l->ips + MOST - n, ips, fresh * sizeof *ips);
    lt_tree_find(ips, n, l->node + MOST - n, known);
    l->depth = n;
    l->generation = lt_tree_generation();
    return (struct raw_stack){.number = l->node[MOST - n]};
}

void native_stacks_restart(void)
{
    lt_tree_restart();
    native_names_restart();
}
