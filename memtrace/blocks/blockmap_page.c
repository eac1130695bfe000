/* blockmap_page.c - one page of the block map in 16-byte granules; see blockmap_page.h and blockmap.h.
 *
 * A granule that several blocks share (blocks of odd size or alignment) points to a crowd, a short list
 * of their slots; it falls back to a plain slot when one is left.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/blocks/blockmap_page.h"

#include <stdlib.h>

struct leaf *leaf_new(struct blockmap *m)
{
    struct leaf *leaf = m->free_leaves;
    if (!leaf)
        return calloc(1, sizeof *leaf);
    m->free_leaves = leaf->next;
    return leaf;
}

void leaf_release(struct blockmap *m, struct leaf *leaf)
{
    leaf->next = m->free_leaves;
    m->free_leaves = leaf;
}

static bool grow_crowds(struct blockmap *m)
{
    uint32_t capacity = m->crowd_capacity ? m->crowd_capacity * 2 : 64;
    struct crowd *crowds = realloc(m->crowds, capacity * sizeof *crowds);
    if (!crowds)
        return false;
    m->crowds = crowds;
    m->crowd_capacity = capacity;
    return true;
}

/* Index of an empty crowd; UINT32_MAX when out of memory. */
static uint32_t crowd_new(struct blockmap *m)
{
    uint32_t i = m->free_crowd;
    if (i != UINT32_MAX) {
        m->free_crowd = m->crowds[i].count - 1;
    } else {
        if (m->crowd_used == m->crowd_capacity && !grow_crowds(m))
            return UINT32_MAX;
        i = m->crowd_used++;
    }
    m->crowds[i].count = 0;
    return i;
}

static void crowd_release(struct blockmap *m, uint32_t i)
{
    m->crowds[i].count = m->free_crowd + 1;
    m->free_crowd = i;
}

static bool granule_add(struct blockmap *m, uint32_t *g, uint32_t slot)
{
    if (!*g) {
        *g = slot + 1;
        return true;
    }
    if (!(*g & CROWD)) {
        uint32_t i = crowd_new(m);
        if (i == UINT32_MAX)
            return false;
        m->crowds[i].slots[m->crowds[i].count++] = *g - 1;
        *g = i | CROWD;
    }
    struct crowd *c = &m->crowds[*g & ~CROWD];
    c->slots[c->count++] = slot;
    return true;
}

static void granule_remove(struct blockmap *m, uint32_t *g, uint32_t slot)
{
    if (!(*g & CROWD)) {
        *g = 0;
        return;
    }
    struct crowd *c = &m->crowds[*g & ~CROWD];
    uint32_t i = 0;
    while (c->slots[i] != slot)
        i++;
    c->slots[i] = c->slots[--c->count];
    if (c->count == 1) {
        uint32_t crowd = *g & ~CROWD;
        *g = c->slots[0] + 1;
        crowd_release(m, crowd);
    }
}

static unsigned granule_of(uint64_t addr)
{
    return addr >> GRANULE_BITS & (PAGE_GRANULES - 1);
}

bool leaf_add(struct blockmap *m, struct leaf *leaf, uint32_t slot, uint64_t first, uint64_t last)
{
    for (unsigned i = granule_of(first); i <= granule_of(last); i++)
        if (!granule_add(m, &leaf->granules[i], slot))
            return false;
    leaf->count++;
    return true;
}

void leaf_remove(struct blockmap *m, struct leaf *leaf, uint32_t slot, uint64_t first, uint64_t last)
{
    for (unsigned i = granule_of(first); i <= granule_of(last); i++)
        granule_remove(m, &leaf->granules[i], slot);
    leaf->count--;
}

static bool overlaps(const struct block *b, uint64_t first, uint64_t last)
{
    return b->base <= last && span_last(b->base, b->size) >= first;
}

static uint32_t crowd_overlap(const struct blockmap *m, uint32_t crowd, uint64_t first, uint64_t last,
                              uint32_t except)
{
    const struct crowd *c = &m->crowds[crowd];
    for (uint32_t i = 0; i < c->count; i++)
        if (c->slots[i] != except && overlaps(&m->blocks[c->slots[i]], first, last))
            return c->slots[i];
    return NO_SLOT;
}

uint32_t leaf_overlap(const struct blockmap *m, const struct leaf *leaf, uint64_t first, uint64_t last,
                      uint32_t except)
{
    for (unsigned i = granule_of(first); i <= granule_of(last); i++) {
        uint32_t g = leaf->granules[i], slot = g - 1;
        if (g & CROWD)
            slot = crowd_overlap(m, g & ~CROWD, first, last, except);
        if (slot != NO_SLOT && slot != except && overlaps(&m->blocks[slot], first, last))
            return slot;
    }
    return NO_SLOT;
}

uint32_t blockmap_find_crowd(const struct blockmap *m, uint32_t crowd, uint64_t addr)
{
    return crowd_overlap(m, crowd, addr, addr, NO_SLOT);
}
