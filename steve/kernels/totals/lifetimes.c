/* lifetimes.c - own and other accesses of every block; see lifetimes.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/totals/lifetimes.h"

#include "memtrace/base/array.h"

bool lifetimes_init(struct lifetimes *l)
{
    memset(l, 0, sizeof *l);
    return handle_map_init(&l->live);
}

void lifetimes_free(struct lifetimes *l)
{
    handle_map_free(&l->live);
    free(l->ordinal);
    free(l->blocks);
}

static void end_life(struct lifetimes *l, uint32_t i)
{
    struct lifetime *block = &l->blocks[l->ordinal[i]];

    block->other = l->accesses - block->other - block->own;
}

static void block_free(struct lifetimes *l, uint64_t handle)
{
    uint32_t i = handle_map_remove(&l->live, handle);

    if (i != HANDLE_MAP_NONE)
        end_life(l, i);
}

static bool block_new(struct lifetimes *l, uint64_t handle)
{
    uint32_t i;

    block_free(l, handle);
    i = handle_map_add(&l->live, handle);
    if (i == HANDLE_MAP_NONE || !array_grow(&l->ordinal, &l->room, (size_t)i + 1, sizeof *l->ordinal) ||
        !array_grow(&l->blocks, &l->blocks_room, l->n + 1, sizeof *l->blocks))
        return false;
    l->ordinal[i] = l->n;
    l->blocks[l->n++] = (struct lifetime){.handle = handle, .other = l->accesses};
    return true;
}

static void block_access(struct lifetimes *l, uint64_t handle)
{
    uint32_t i = handle_map_find(&l->live, handle);

    if (i == HANDLE_MAP_NONE) {
        l->unmatched++;
        return;
    }
    l->blocks[l->ordinal[i]].own++;
    l->accesses++;
}

bool lifetimes_feed(struct lifetimes *l, const struct op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].code == OP_NEW && !block_new(l, ops[i].handle))
            return false;
        if (ops[i].code == OP_FREE)
            block_free(l, ops[i].handle);
        if (ops[i].code != OP_NEW && ops[i].code != OP_FREE && ops[i].code != OP_RESIZE)
            block_access(l, ops[i].handle);
    }
    return true;
}

void lifetimes_finish(struct lifetimes *l)
{
    for (size_t i = 0; i <= l->live.mask; i++)
        if (l->live.entries[i].key != 0)
            end_life(l, l->live.entries[i].index);
}
