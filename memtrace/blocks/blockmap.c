/* blockmap.c - finds the live block that contains an address.
 *
 * A block is divided into pieces: the largest aligned pages that it covers wholly, and 4 KB pages, which it may cover
 * in part, at its ends. Adding and removing a block process the same pieces.
 *
 * A 4 KB page that several blocks share has a leaf, which has an entry for each granule of 16 bytes. A granule that
 * several blocks share, because their size or alignment is odd, has the index of a crowd, a short list of their
 * slots. When one slot is left, the crowd is replaced by the slot.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/blocks/blockmap.h"

#include <stdlib.h>
#include <string.h>

/* -- leaves: one page in granules of 16 bytes -- */

/* An empty leaf; NULL when out of memory. */
static __attribute__((noinline)) struct leaf *leaf_new(struct blockmap *m)
{
    struct leaf *leaf = m->free_leaves;
    if (!leaf)
        return calloc(1, sizeof *leaf);
    m->free_leaves = leaf->next;
    return leaf;
}

static __attribute__((noinline)) void leaf_release(struct blockmap *m, struct leaf *leaf)
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

/* So many granules are looked at together before each is looked at: usually all are empty, or of one block only. */
enum { MANY_GRANULES = 12 };

/* All bits that are in some of n granules. */
static inline uint32_t bits_of(const uint32_t *granules, unsigned n)
{
    uint32_t bits = 0;
    for (unsigned i = 0; i < n; i++)
        bits |= granules[i];
    return bits;
}

static unsigned granules_between(uint64_t first, uint64_t last)
{
    return granule_of(last) - granule_of(first) + 1;
}

/* Add the part of a block in [first, last], which are addresses in the page of the leaf. */
static __attribute__((noinline)) bool leaf_add(struct blockmap *m, struct leaf *leaf, uint32_t slot,
                                               uint64_t first, uint64_t last)
{
    uint32_t *granules = &leaf->granules[granule_of(first)];
    const unsigned n = granules_between(first, last);
    const bool are_empty = n >= MANY_GRANULES && !bits_of(granules, n);
    for (unsigned i = 0; are_empty && i < n; i++)
        granules[i] = slot + 1;
    for (unsigned i = 0; !are_empty && i < n; i++)
        if (!granule_add(m, &granules[i], slot))
            return false;
    leaf->count++;
    return true;
}

/* Remove the part of a block in [first, last]. */
static __attribute__((noinline)) void leaf_remove(struct blockmap *m, struct leaf *leaf, uint32_t slot,
                                                  uint64_t first, uint64_t last)
{
    uint32_t *granules = &leaf->granules[granule_of(first)];
    const unsigned n = granules_between(first, last);
    if (n >= MANY_GRANULES && !(bits_of(granules, n) & CROWD))
        memset(granules, 0, n * sizeof *granules);
    else
        for (unsigned i = 0; i < n; i++)
            granule_remove(m, &granules[i], slot);
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

/* A block other than `except` that overlaps [first, last], or NO_SLOT. */
static __attribute__((noinline)) uint32_t leaf_overlap(const struct blockmap *m, const struct leaf *leaf,
                                                       uint64_t first, uint64_t last, uint32_t except)
{
    const uint32_t *granules = &leaf->granules[granule_of(first)];
    const unsigned n = granules_between(first, last);
    if (n >= MANY_GRANULES && !bits_of(granules, n))
        return NO_SLOT;
    for (unsigned i = 0; i < n; i++) {
        uint32_t g = granules[i], slot = g - 1;
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

/* -- the map -- */

static unsigned level_shift(unsigned level)
{
    return PAGE_BITS + LEVEL_BITS * level;
}

static bool grow_slots(struct blockmap *m)
{
    uint32_t capacity = m->capacity ? m->capacity * 2 : 1024;
    struct block *blocks = capacity < CROWD ? realloc(m->blocks, capacity * sizeof *blocks) : NULL;
    if (!blocks)
        return false;
    memset(blocks + m->capacity, 0, (capacity - m->capacity) * sizeof *blocks);
    m->blocks = blocks;
    m->capacity = capacity;
    return true;
}

bool blockmap_init(struct blockmap *m)
{
    *m = (struct blockmap){.free_slot = NO_SLOT, .free_crowd = UINT32_MAX};
    bool ok = grow_slots(m);
    for (unsigned i = 0; i < BLOCKMAP_LEVELS; i++)
        ok &= page_table_init(&m->levels[i]);
    return ok;
}

static void free_leaves(struct leaf *leaf)
{
    while (leaf) {
        struct leaf *next = leaf->next;
        free(leaf);
        leaf = next;
    }
}

void blockmap_destroy(struct blockmap *m)
{
    struct page_table *t = &m->levels[0];
    for (uint64_t i = 0; t->entries && i <= t->mask; i++)
        if (t->entries[i].value && !is_owner(t->entries[i].value))
            free((void *)(uintptr_t)t->entries[i].value);
    for (unsigned i = 0; i < BLOCKMAP_LEVELS; i++)
        page_table_free(&m->levels[i]);
    free_leaves(m->free_leaves);
    free(m->blocks);
    free(m->crowds);
}

/* -- entries and the counts above them -- */

static bool count_above(struct blockmap *m, unsigned level, uint64_t page)
{
    while (++level < BLOCKMAP_LEVELS) {
        page >>= LEVEL_BITS;
        uint64_t v = page_table_get(&m->levels[level], page);
        if (!page_table_set(&m->levels[level], page, v + 2))
            return false;
        if (v)
            break;
    }
    return true;
}

static void uncount_above(struct blockmap *m, unsigned level, uint64_t page)
{
    while (++level < BLOCKMAP_LEVELS) {
        page >>= LEVEL_BITS;
        struct page_entry *e = page_table_entry(&m->levels[level], page);
        if (e->value > 2) {
            e->value -= 2;
            break;
        }
        page_table_delete(&m->levels[level], page);
    }
}

static bool own_page(struct blockmap *m, unsigned level, uint64_t page, uint32_t slot)
{
    m->owners[level]++;
    m->pages_made++;
    if (level > m->top)
        m->top = level;
    return page_table_set(&m->levels[level], page, (uint64_t)slot << 1 | 1) && count_above(m, level, page);
}

static void disown_page(struct blockmap *m, unsigned level, uint64_t page)
{
    m->owners[level]--;
    while (m->top > 0 && m->owners[m->top] == 0)
        m->top--;
    page_table_delete(&m->levels[level], page);
    uncount_above(m, level, page);
}

/* -- pieces of a block -- */

struct piece {
    unsigned level;
    uint64_t first, last;
};

/* The piece that begins at p->first of a block whose last byte is at `end`. */
static void cut_piece(struct piece *p, uint64_t end)
{
    p->level = end - p->first < (uint64_t)1 << level_shift(1) ? 1 : BLOCKMAP_LEVELS;
    while (--p->level > 0) {
        uint64_t low = ((uint64_t)1 << level_shift(p->level)) - 1;
        if ((p->first & low) == 0 && end - p->first >= low)
            break;
    }
    uint64_t page_last = p->first | (((uint64_t)1 << level_shift(p->level)) - 1);
    p->last = page_last < end ? page_last : end;
}

/* Replace the owner of a page by a leaf, so that a second block can be added to the page. */
static struct leaf *split_page(struct blockmap *m, uint64_t page, uint32_t owner)
{
    const struct block *b = &m->blocks[owner];
    uint64_t first = page << PAGE_BITS, last = first | ((1 << PAGE_BITS) - 1);
    uint64_t b_last = span_last(b->base, b->size);
    struct leaf *leaf = leaf_new(m);
    if (!leaf)
        return NULL;
    /* neither can run out of memory: granules are empty, and the entry exists */
    leaf_add(m, leaf, owner, b->base > first ? b->base : first, b_last < last ? b_last : last);
    page_table_set(&m->levels[0], page, (uint64_t)(uintptr_t)leaf);
    m->owners[0]--;
    return leaf;
}

static bool add_piece(struct blockmap *m, uint32_t slot, const struct piece *p)
{
    uint64_t page = p->first >> level_shift(p->level);
    uint64_t v = p->level == 0 ? page_table_get(&m->levels[0], page) : 0;
    if (!v)
        return own_page(m, p->level, page, slot);
    struct leaf *leaf = is_owner(v) ? split_page(m, page, owner_slot(v)) : (struct leaf *)(uintptr_t)v;
    return leaf && leaf_add(m, leaf, slot, p->first, p->last);
}

static void remove_piece(struct blockmap *m, uint32_t slot, const struct piece *p)
{
    uint64_t page = p->first >> level_shift(p->level);
    uint64_t v = page_table_get(&m->levels[p->level], page);
    if (is_owner(v)) {
        disown_page(m, p->level, page);
        return;
    }
    struct leaf *leaf = (struct leaf *)(uintptr_t)v;
    leaf_remove(m, leaf, slot, p->first, p->last);
    if (leaf->count == 0) {
        leaf_release(m, leaf);
        page_table_delete(&m->levels[0], page);
        uncount_above(m, 0, page);
    }
}

static bool enter(struct blockmap *m, uint32_t slot)
{
    uint64_t end = span_last(m->blocks[slot].base, m->blocks[slot].size);
    struct piece p = {.first = m->blocks[slot].base};
    for (;; p.first = p.last + 1) {
        cut_piece(&p, end);
        if (!add_piece(m, slot, &p))
            return false;
        if (p.last == end)
            return true;
    }
}

static void leave(struct blockmap *m, uint32_t slot)
{
    uint64_t end = span_last(m->blocks[slot].base, m->blocks[slot].size);
    struct piece p = {.first = m->blocks[slot].base};
    for (;; p.first = p.last + 1) {
        cut_piece(&p, end);
        remove_piece(m, slot, &p);
        if (p.last == end)
            return;
    }
}

/* -- slots -- */

static uint32_t take_slot(struct blockmap *m)
{
    uint32_t slot = m->free_slot;
    if (slot != NO_SLOT) {
        m->free_slot = m->blocks[slot].note;
        return slot;
    }
    if (m->used == m->capacity && !grow_slots(m))
        return NO_SLOT;
    return m->used++;
}

uint32_t blockmap_add(struct blockmap *m, uint64_t base, uint64_t size, uint32_t heap, uint64_t handle)
{
    uint32_t slot = take_slot(m);
    if (slot == NO_SLOT)
        return NO_SLOT;
    m->blocks[slot] = (struct block){.base = base, .size = size, .handle = handle, .heap = heap};
    m->live++;
    return enter(m, slot) ? slot : NO_SLOT;
}

void blockmap_remove(struct blockmap *m, uint32_t slot)
{
    leave(m, slot);
    m->blocks[slot] = (struct block){.heap = DEAD_HEAP, .note = m->free_slot};
    m->free_slot = slot;
    m->live--;
}

bool blockmap_move(struct blockmap *m, uint32_t slot, uint64_t base, uint64_t size)
{
    leave(m, slot);
    m->blocks[slot].base = base;
    m->blocks[slot].size = size;
    return enter(m, slot);
}

/* -- overlaps -- */

struct range {
    uint64_t first, last;
    uint32_t except;
};

static uint32_t overlap_below(const struct blockmap *m, unsigned level, uint64_t page, const struct range *r);

/* A block in the pages of `level` from `first` to `last`. */
static uint32_t overlap_pages(const struct blockmap *m, unsigned level, uint64_t first, uint64_t last,
                              const struct range *r)
{
    unsigned shift = level_shift(level);
    for (uint64_t page = first >> shift; page <= last >> shift; page++) {
        uint32_t slot = overlap_below(m, level, page, r);
        if (slot != NO_SLOT)
            return slot;
    }
    return NO_SLOT;
}

static uint32_t overlap_below(const struct blockmap *m, unsigned level, uint64_t page, const struct range *r)
{
    uint64_t v = page_table_get(&m->levels[level], page);
    uint64_t first = page << level_shift(level), last = first | (((uint64_t)1 << level_shift(level)) - 1);
    first = first > r->first ? first : r->first;
    last = last < r->last ? last : r->last;
    if (!v)
        return NO_SLOT;
    if (!is_owner(v))
        return level ? overlap_pages(m, level - 1, first, last, r)
                     : leaf_overlap(m, (const struct leaf *)(uintptr_t)v, first, last, r->except);
    uint32_t slot = owner_slot(v);
    const struct block *b = &m->blocks[slot];
    return slot != r->except && b->base <= last && span_last(b->base, b->size) >= first ? slot : NO_SLOT;
}

uint32_t blockmap_overlap(const struct blockmap *m, uint64_t base, uint64_t size, uint32_t except)
{
    struct range r = {base, span_last(base, size), except};
    uint32_t high = blockmap_find_high(m, r.first);
    if (high == NO_SLOT || high == except)
        high = blockmap_find_high(m, r.last);
    if (high != NO_SLOT && high != except)
        return high;
    /* The lowest level at which the range has few pages. Larger pages can overlap it only at its two ends, which
     * were examined above. */
    unsigned level = 0;
    while (level < BLOCKMAP_LEVELS - 1 && (r.last - r.first) >> level_shift(level) >= 1 << LEVEL_BITS)
        level++;
    return overlap_pages(m, level, r.first, r.last, &r);
}

bool blockmap_is_clear(const struct blockmap *m, uint64_t base, uint64_t size)
{
    const uint64_t last = span_last(base, size), v = page_table_get(&m->levels[0], base >> PAGE_BITS);
    if (base >> PAGE_BITS != last >> PAGE_BITS || is_owner(v))
        return false;
    if (!v)
        return blockmap_find_high(m, base) == NO_SLOT;
    return leaf_overlap(m, (const struct leaf *)(uintptr_t)v, base, last, NO_SLOT) == NO_SLOT;
}

uint32_t blockmap_beside(const struct blockmap *m, uint64_t addr, uint64_t size, uint64_t reach,
                         uint32_t heap)
{
    uint64_t first = addr > reach ? addr - reach : 0, last = span_last(addr, size);
    last = last < UINT64_MAX - reach ? last + reach : UINT64_MAX;
    uint32_t slot = reach ? blockmap_overlap(m, first, last - first + 1, NO_SLOT) : NO_SLOT;
    return slot != NO_SLOT && m->blocks[slot].heap == heap ? slot : NO_SLOT;
}

/* -- the hash table of pages --
 *
 * Deletion moves later entries of the probe sequence back and leaves no marks, so that many additions and deletions
 * do not slow the table down. */

static bool allocate(struct page_table *t, unsigned log2_capacity)
{
    t->entries = calloc((size_t)1 << log2_capacity, sizeof *t->entries);
    t->mask = ((uint64_t)1 << log2_capacity) - 1;
    t->shift = 64 - log2_capacity;
    t->count = 0;
    return t->entries != NULL;
}

bool page_table_init(struct page_table *t)
{
    return allocate(t, 6);
}

void page_table_free(struct page_table *t)
{
    free(t->entries);
    t->entries = NULL;
}

static bool grow(struct page_table *t)
{
    struct page_table bigger;
    if (!allocate(&bigger, 64 - t->shift + 1)) {
        free(bigger.entries);
        return false;
    }
    for (uint64_t i = 0; i <= t->mask; i++)
        if (t->entries[i].value)
            *page_table_entry(&bigger, t->entries[i].page) = t->entries[i];
    bigger.count = t->count;
    free(t->entries);
    *t = bigger;
    return true;
}

bool page_table_set(struct page_table *t, uint64_t page, uint64_t value)
{
    struct page_entry *e = page_table_entry(t, page);
    if (!e->value) {
        if (t->count * 2 > t->mask) {
            if (!grow(t))
                return false;
            e = page_table_entry(t, page);
        }
        t->count++;
    }
    *e = (struct page_entry){page, value};
    return true;
}

void page_table_delete(struct page_table *t, uint64_t page)
{
    struct page_entry *e = page_table_entry(t, page);
    if (e->value)
        page_table_delete_entry(t, e);
}

void page_table_delete_entry(struct page_table *t, struct page_entry *e)
{
    uint64_t hole = (uint64_t)(e - t->entries);
    for (uint64_t i = (hole + 1) & t->mask; t->entries[i].value; i = (i + 1) & t->mask) {
        uint64_t home = page_table_home(t, t->entries[i].page);
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->entries[hole] = t->entries[i];
            hole = i;
        }
    }
    t->entries[hole].value = 0;
    t->count--;
}
