/* buddy.c - reference allocator: binary buddies.
 *
 * Blocks are powers of two of 32 bytes, at multiples of their size from the start of the heap. A block is split in
 * halves until it has the required size. A freed block is joined with its buddy as long as that is free. Blocks have
 * no headers: one byte per 32 bytes, at the end of the heap, says what begins (and, for free blocks, ends) there. If
 * the size of the heap is not a power of two, the heap initially is a sequence of ever smaller blocks, which are used
 * one after the other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <string.h>

enum { UNIT_LOG = 5, UNIT = 1 << UNIT_LOG, ORDERS = 42 };
/* in the byte of a unit, with the order of the block */
enum { FREE_START = 0x80, FREE_END = 0x40, ORDER = 0x3f };

struct free_block {
    struct free_block *next, *prev;
};

static char *s_base;
static size_t s_units, s_begun; /* number of units of the heap, and of the blocks that were used already */
static unsigned char *s_map;
static struct free_block *s_lists[ORDERS];
static uint64_t s_orders;       /* bit set: the list of this order is not empty */
static size_t s_free, s_chunks; /* bytes, blocks */
static size_t s_reach;          /* unit after the last block in use and the free blocks next to it */

static size_t unit_of(const void *p)
{
    return (size_t)((const char *)p - s_base) >> UNIT_LOG;
}

static void *block_at(size_t unit)
{
    return s_base + (unit << UNIT_LOG);
}

static void push(size_t unit, unsigned order)
{
    struct free_block *b = block_at(unit);
    *b = (struct free_block){s_lists[order], NULL};
    if (b->next)
        b->next->prev = b;
    s_lists[order] = b;
    s_orders |= 1ull << order;
    s_map[unit] = (unsigned char)order;
    s_map[unit + ((size_t)1 << order) - 1] = (unsigned char)(FREE_END | order);
    s_map[unit] |= (unsigned char)(FREE_START | order);
    s_free += (size_t)UNIT << order;
    s_chunks++;
}

static void pull(size_t unit, unsigned order)
{
    struct free_block *b = block_at(unit);
    if (b->next)
        b->next->prev = b->prev;
    if (b->prev)
        b->prev->next = b->next;
    else if (!(s_lists[order] = b->next))
        s_orders &= ~(1ull << order);
    s_map[unit + ((size_t)1 << order) - 1] = 0;
    s_map[unit] = (unsigned char)order;
    s_free -= (size_t)UNIT << order;
    s_chunks--;
}

/* Put the next block of the initial sequence into its list. False if there is none. */
static bool begin_next(void)
{
    if (s_begun == s_units)
        return false;
    unsigned order = 63u - (unsigned)__builtin_clzll(s_units - s_begun);
    push(s_begun, order);
    s_begun += (size_t)1 << order;
    return true;
}

static bool buddy_init(void *base, size_t size)
{
    s_base = base;
    s_units = size / (UNIT + 1);
    s_map = (unsigned char *)base + (s_units << UNIT_LOG);
    return begin_next();
}

static unsigned order_of(size_t size)
{
    return size <= UNIT ? 0 : 64u - (unsigned)__builtin_clzll((size - 1) >> UNIT_LOG);
}

static void *buddy_malloc(size_t size, uint32_t id)
{
    if (size > s_units << UNIT_LOG)
        return NULL;
    unsigned order = order_of(size);
    while (!(s_orders >> order))
        if (!begin_next())
            return NULL;
    unsigned from = (unsigned)__builtin_ctzll(s_orders >> order << order);
    size_t unit = unit_of(s_lists[from]), end = unit + ((size_t)1 << order);
    pull(unit, from);
    while (from-- > order)
        push(unit + ((size_t)1 << from), from);
    s_map[unit] = (unsigned char)order;
    s_reach = end > s_reach ? end : s_reach;
    return block_at(unit);
}

static unsigned order_at(const void *ref)
{
    return s_map[unit_of(ref)] & ORDER;
}

static void buddy_free(void *ref, uint32_t id)
{
    unsigned order = order_at(ref);
    size_t unit = unit_of(ref);
    for (;; order++) {
        size_t other = unit ^ ((size_t)1 << order);
        if (other >= s_units || !(s_map[other] & FREE_START) || (s_map[other] & ORDER) != order)
            break;
        pull(other, order);
        unit &= ~((size_t)1 << order);
    }
    push(unit, order);
    if (s_reach > unit && s_reach <= unit + ((size_t)1 << order))
        s_reach = unit;
}

static size_t buddy_usable(void *ref)
{
    return (size_t)UNIT << order_at(ref);
}

static void *buddy_realloc(void *ref, size_t size, uint32_t id)
{
    size_t had = buddy_usable(ref);
    if (size <= had)
        return ref;
    void *moved = buddy_malloc(size, id);
    if (!moved)
        return NULL;
    memcpy(moved, ref, had);
    buddy_free(ref, id);
    return moved;
}

/* Moves down over free blocks. There are few next to each other, because buddies are joined. */
static void *buddy_highest(void)
{
    while (s_reach && (s_map[s_reach - 1] & FREE_END))
        s_reach -= (size_t)1 << (s_map[s_reach - 1] & ORDER);
    return block_at(s_reach);
}

static bool buddy_walk(struct steve_walk *out)
{
    size_t rest = s_units - s_begun;
    *out = (struct steve_walk){s_free + (rest << UNIT_LOG), s_chunks + (size_t)__builtin_popcountll(rest), 0};
    if (s_orders || rest)
        out->largest = (size_t)UNIT << (63 - __builtin_clzll(s_orders | rest));
    return true;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "buddy",
    .description = "reference: binary buddies, powers of two from 32 bytes",
    .confinement = STEVE_IN_HEAP,
    .least_heap = 64,
    .init = buddy_init,
    .malloc = buddy_malloc,
    .free = buddy_free,
    .realloc = buddy_realloc,
    .usable = buddy_usable,
    .highest = buddy_highest,
    .walk = buddy_walk,
};
