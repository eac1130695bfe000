/* overlay.c - implements live blocks that may overlap. SPDX-License-Identifier: GPL-2.0-or-later */
#include "memtrace/blocks/overlay.h"

#include "memtrace/base/array.h"

enum { FIRST_BITS = 8, STEP_BITS = 4, FIRST_TABLE = 10 };
#define MULTIPLIER 0x9e3779b97f4a7c15u

struct overlay_entry {
    uint64_t page; /* its number among the pages of its size */
    uint32_t next; /* in the list: entry + 1, 0 = end */
    uint8_t size;  /* index of the page size */
    bool in_use;
};

static unsigned page_bits(unsigned size)
{
    return FIRST_BITS + STEP_BITS * size;
}

static uint64_t page_of(uint64_t addr, unsigned size)
{
    return page_bits(size) >= 64 ? 0 : addr >> page_bits(size);
}

static unsigned size_index(uint64_t bytes)
{
    unsigned size = 0;
    while (page_bits(size) < 64 && bytes >> page_bits(size))
        size++;
    return size;
}

static uint32_t *list_of(const struct overlay *o, uint64_t page, unsigned size)
{
    return &o->heads[(page * OVERLAY_SIZES + size) * MULTIPLIER >> (64 - o->bits)];
}

void overlay_init(struct overlay *o)
{
    *o = (struct overlay){.free_slot = NO_SLOT};
}

void overlay_destroy(struct overlay *o)
{
    free(o->blocks);
    free(o->entries);
    free(o->heads);
}

/* -- lists of entries -- */

/* Divide a list of the smaller table into two lists, keeping the order. */
static void split_list(struct overlay *o, uint32_t list)
{
    while (list) {
        struct overlay_entry *e = &o->entries[list - 1];
        uint32_t next = e->next, *end = list_of(o, e->page, e->size);
        while (*end)
            end = &o->entries[*end - 1].next;
        *end = list;
        e->next = 0;
        list = next;
    }
}

/* Make the table have at least one list per block. */
static bool grow_table(struct overlay *o)
{
    if (o->bits && o->live < UINT64_C(1) << o->bits)
        return true;
    unsigned old_bits = o->bits, bits = old_bits ? old_bits + 1 : FIRST_TABLE;
    uint32_t *old = o->heads, *heads = calloc((size_t)1 << bits, sizeof *heads);
    if (!heads)
        return false;
    o->heads = heads;
    o->bits = bits;
    for (size_t i = 0; old_bits && i < (size_t)1 << old_bits; i++)
        split_list(o, old[i]);
    free(old);
    return true;
}

static void put_entry(struct overlay *o, uint32_t index, uint64_t page, unsigned size)
{
    uint32_t *head = list_of(o, page, size);
    o->entries[index] =
        (struct overlay_entry){.page = page, .next = *head, .size = (uint8_t)size, .in_use = true};
    *head = index + 1;
}

static void take_entry(struct overlay *o, uint32_t index)
{
    struct overlay_entry *e = &o->entries[index];
    if (!e->in_use)
        return;
    uint32_t *at = list_of(o, e->page, e->size);
    while (*at != index + 1)
        at = &o->entries[*at - 1].next;
    *at = e->next;
    e->in_use = false;
}

/* -- blocks -- */

/* A free slot with room for its entries; NO_SLOT when out of memory. */
static uint32_t take_slot(struct overlay *o)
{
    uint32_t slot = o->free_slot;
    if (slot != NO_SLOT) {
        o->free_slot = o->blocks[slot].note;
        return slot;
    }
    size_t need = o->used + 1;
    if (need > NO_SLOT / 2 || !array_grow(&o->entries, &o->entry_room, 2 * need, sizeof *o->entries) ||
        !array_grow_used(&o->blocks, &o->used, &o->room, need, sizeof *o->blocks))
        return NO_SLOT;
    return (uint32_t)(need - 1);
}

uint32_t overlay_add(struct overlay *o, uint64_t base, uint64_t size, uint32_t heap, uint64_t handle)
{
    if (!grow_table(o))
        return NO_SLOT;
    uint32_t slot = take_slot(o);
    if (slot == NO_SLOT)
        return NO_SLOT;
    o->blocks[slot] = (struct block){.base = base, .size = size, .handle = handle, .heap = heap};
    unsigned index = size_index(size);
    uint64_t first = page_of(base, index), last = page_of(size ? base + (size - 1) : base, index);
    put_entry(o, 2 * slot, first, index);
    if (last != first)
        put_entry(o, 2 * slot + 1, last, index);
    o->live_of[index]++;
    o->live++;
    return slot;
}

void overlay_remove(struct overlay *o, uint32_t slot)
{
    o->live_of[o->entries[2 * slot].size]--;
    take_entry(o, 2 * slot);
    take_entry(o, 2 * slot + 1);
    o->blocks[slot] = (struct block){.heap = DEAD_HEAP, .note = o->free_slot};
    o->free_slot = slot;
    o->live--;
}

/* The newest block, in the page of the address in pages of this size, that contains the address (`whole`) or that
 * begins at it. */
static uint32_t newest(const struct overlay *o, uint64_t addr, unsigned size, bool whole)
{
    uint64_t page = page_of(addr, size);
    for (uint32_t at = *list_of(o, page, size); at; at = o->entries[at - 1].next) {
        const struct overlay_entry *e = &o->entries[at - 1];
        const struct block *b = &o->blocks[(at - 1) / 2];
        if (e->page == page && e->size == size && (whole ? addr - b->base < b->size : addr == b->base))
            return (at - 1) / 2;
    }
    return NO_SLOT;
}

static uint32_t newest_of_all(const struct overlay *o, uint64_t addr, bool whole)
{
    uint32_t best = NO_SLOT;
    for (unsigned size = 0; size < OVERLAY_SIZES; size++) {
        uint32_t slot = o->live_of[size] ? newest(o, addr, size, whole) : NO_SLOT;
        if (slot != NO_SLOT && (best == NO_SLOT || o->blocks[slot].handle > o->blocks[best].handle))
            best = slot;
    }
    return best;
}

uint32_t overlay_find(const struct overlay *o, uint64_t addr)
{
    return newest_of_all(o, addr, true);
}

uint32_t overlay_at(const struct overlay *o, uint64_t addr)
{
    return newest_of_all(o, addr, false);
}
