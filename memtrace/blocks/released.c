/* released.c - keeps blocks that ended with their container. SPDX-License-Identifier: GPL-2.0-or-later */
#include "memtrace/blocks/released.h"

#include <stdlib.h>

void released_destroy(struct released *r)
{
    if (r->order)
        page_table_free(&r->heaps);
    free(r->order);
}

static bool make(struct released *r)
{
    r->order = malloc(RELEASED_MOST * sizeof *r->order);
    if (r->order && page_table_init(&r->heaps))
        return true;
    free(r->order);
    r->order = NULL;
    return false;
}

static uint64_t value_of(uint64_t number, uint32_t heap)
{
    return (number & UINT32_MAX) << 32 | (heap + 1);
}

/* Remove the entry whose place in the ring is needed, unless it was removed or added again since. */
static void forget_oldest(struct released *r)
{
    uint64_t addr = r->order[r->added % RELEASED_MOST], value = page_table_get(&r->heaps, addr);
    if (value && value >> 32 == ((r->added - RELEASED_MOST) & UINT32_MAX))
        page_table_delete(&r->heaps, addr);
}

bool released_add(struct released *r, uint64_t addr, uint32_t heap)
{
    if (!r->order && !make(r))
        return false;
    if (r->added >= RELEASED_MOST)
        forget_oldest(r);
    r->order[r->added % RELEASED_MOST] = addr;
    return page_table_set(&r->heaps, addr, value_of(r->added++, heap));
}

bool released_take(struct released *r, uint64_t addr, uint32_t heap)
{
    uint64_t value = released_any(r) ? page_table_get(&r->heaps, addr) : 0;
    if ((uint32_t)value != heap + 1)
        return false;
    page_table_delete(&r->heaps, addr);
    return true;
}

bool released_copy(struct released *to, const struct released *from)
{
    uint64_t first = from->added < RELEASED_MOST ? 0 : from->added - RELEASED_MOST;
    for (uint64_t i = first; i < from->added; i++) {
        uint64_t addr = from->order[i % RELEASED_MOST], value = page_table_get(&from->heaps, addr);
        if (value && value >> 32 == (i & UINT32_MAX) && !released_add(to, addr, (uint32_t)value - 1))
            return false;
    }
    return true;
}
