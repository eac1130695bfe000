/* stack_table.c - see stack_table.h.
 *
 * Most stacks are the only ones with their parents: the calls from the place that allocates into the allocator. So the
 * first one is found through its parent, whose memory is near, and only the others are in a hash table. A program with
 * many stacks would wait for memory there, once for each frame of a stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/stack_table.h"
#include "memtrace/base/array.h"

enum { FIRST_SLOTS = 256 };

static bool same(const struct stack_table *t, uint32_t id, uint32_t parent, uint32_t frame)
{
    return t->nodes[id].parent == parent && t->nodes[id].frame == frame;
}

/* The slot of a stack, or the free one where it belongs. */
static uint32_t *find(const struct stack_table *t, uint32_t parent, uint32_t frame)
{
    const uint64_t key = (uint64_t)parent << 32 | frame;
    uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & t->mask;
    while (t->slots[i] && !same(t, t->slots[i], parent, frame))
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

/* Use this number of slots. */
static bool allocate_slots(struct stack_table *t, uint32_t count)
{
    const struct stack_table old = *t;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    t->slots = slots;
    t->mask = count - 1;
    for (uint32_t i = 0; old.slots && i <= old.mask; i++)
        if (old.slots[i])
            *find(t, t->nodes[old.slots[i]].parent, t->nodes[old.slots[i]].frame) = old.slots[i];
    free(old.slots);
    return true;
}

bool stack_table_init(struct stack_table *t)
{
    *t = (struct stack_table){.count = 1};
    return array_grow(&t->nodes, &t->room, 1, sizeof *t->nodes) && allocate_slots(t, FIRST_SLOTS);
}

void stack_table_free(struct stack_table *t)
{
    free(t->nodes);
    free(t->slots);
}

uint32_t stack_table_id(struct stack_table *t, uint32_t parent, uint32_t frame, bool *is_new)
{
    *is_new = false;
    if (!array_reserve(&t->nodes, &t->room, (size_t)t->count + 1, sizeof *t->nodes))
        return STACK_TABLE_FAILED;
    uint32_t *id = &t->nodes[parent].first;
    if (*id && !same(t, *id, parent, frame)) {
        if (t->hashed > t->mask / 2 && !allocate_slots(t, 2 * (t->mask + 1)))
            return STACK_TABLE_FAILED;
        id = find(t, parent, frame);
        t->hashed += !*id;
    }
    *is_new = !*id;
    if (*is_new) {
        *id = t->count;
        t->nodes[t->count++] = (struct stack_node){.parent = parent, .frame = frame};
    }
    return *id;
}
