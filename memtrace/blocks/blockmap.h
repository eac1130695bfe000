/* blockmap.h - finds the live block that contains an address.
 *
 * The recorder does this for every access, so it takes constant time. A hash table of 4 KB pages has for each page
 * either the only block that touches it, or a leaf with the slot of a block for each 16-byte granule. Pages that a
 * large block covers wholly are not entered one by one, but as pages of 2 MB, 1 GB and more in five other tables, so
 * that adding or removing a block of any size takes at most a few thousand steps. These tables also count the entries
 * in the tables below them, so that overlapping blocks are found without a search.
 *
 * Blocks have any address and size that end within 64 bits (span_fits), and several blocks may share a granule. A
 * block of size 0 occupies its address but contains no byte. Live blocks never overlap: the owner of the map first
 * frees the blocks that a new one would overlap (blockmap_overlap). Base and size are checked exactly: padding after
 * a block is not part of it.
 *
 * A block is identified by its slot, a small number that is reused after the block is removed; the last one freed is
 * reused first. When memory runs out, functions fail, and the map may only be destroyed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_BLOCKMAP_H
#define MEMTRACE_BLOCKS_BLOCKMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- a hash table from page numbers to the contents of pages --
 *
 * It uses open addressing with linear probing: a successful look-up takes one multiplication and, in most cases, one
 * cache line. The value 0 marks a free entry. The table grows and never shrinks. */

struct page_entry {
    uint64_t page;
    uint64_t value;
};

struct page_table {
    struct page_entry *entries;
    uint64_t mask; /* capacity - 1 */
    uint64_t count;
    unsigned shift; /* 64 - log2(capacity) */
};

bool page_table_init(struct page_table *t);
void page_table_free(struct page_table *t);

/* Set the value of a page, which is not 0; false when out of memory. */
bool page_table_set(struct page_table *t, uint64_t page, uint64_t value);
void page_table_delete(struct page_table *t, uint64_t page);
/* Delete an entry that page_table_entry returned and that is not free. */
void page_table_delete_entry(struct page_table *t, struct page_entry *e);

static inline uint64_t page_table_home(const struct page_table *t, uint64_t page)
{
    return page * 0x9e3779b97f4a7c15u >> t->shift;
}

/* The entry of a page, or the free entry where it would be added. */
static inline struct page_entry *page_table_entry(const struct page_table *t, uint64_t page)
{
    uint64_t i = page_table_home(t, page);
    while (t->entries[i].value && t->entries[i].page != page)
        i = (i + 1) & t->mask;
    return &t->entries[i];
}

static inline uint64_t page_table_get(const struct page_table *t, uint64_t page)
{
    return page_table_entry(t, page)->value;
}

/* Like page_table_set, with the entry that page_table_entry returned for the page. */
static inline bool page_table_put(struct page_table *t, struct page_entry *e, uint64_t page, uint64_t value)
{
    if (!e->value) {
        if (t->count * 2 > t->mask) /* the table has to grow */
            return page_table_set(t, page, value);
        t->count++;
    }
    *e = (struct page_entry){page, value};
    return true;
}

#define NO_SLOT UINT32_MAX

enum { BLOCKMAP_LEVELS = 6, PAGE_BITS = 12, LEVEL_BITS = 9, GRANULE_BITS = 4, PAGE_GRANULES = 256 };

/* A block. A free slot has size 0 and heap DEAD_HEAP. */
struct block {
    uint64_t base;
    uint64_t size;
    uint64_t handle;
    uint32_t heap;
    uint32_t note; /* for use by the owner of the map; next free slot in a free slot */
};
#define DEAD_HEAP UINT32_MAX

/* The blocks of a page by granule: 0 = none, slot + 1, or CROWD | index of a crowd. */
struct leaf {
    uint32_t granules[PAGE_GRANULES];
    uint32_t count;    /* number of blocks that touch the page */
    struct leaf *next; /* next in the list of free leaves */
};
#define CROWD 0x80000000u

/* Blocks that share a granule: at most one per byte. */
struct crowd {
    uint32_t count; /* in a free crowd: index + 1 of the next free crowd */
    uint32_t slots[1 << GRANULE_BITS];
};

struct blockmap {
    struct block *blocks; /* zero where never used; never NULL */
    uint32_t used;        /* number of slots that were ever used */
    uint32_t capacity;
    uint32_t free_slot; /* head of the list of free slots, NO_SLOT = none */
    uint64_t live;
    /* number of entries ever added: if it is unchanged, pages that were empty still are */
    uint64_t pages_made;
    struct page_table levels[BLOCKMAP_LEVELS];
    uint64_t owners[BLOCKMAP_LEVELS]; /* number of entries of each level that are whole pages of a block */
    unsigned top;                     /* highest level with owners */
    struct leaf *free_leaves;
    struct crowd *crowds;
    uint32_t crowd_used, crowd_capacity, free_crowd;
};

bool blockmap_init(struct blockmap *m);
void blockmap_destroy(struct blockmap *m);

/* Add a block that overlaps no live block. Returns its slot, or NO_SLOT when out of memory. */
uint32_t blockmap_add(struct blockmap *m, uint64_t base, uint64_t size, uint32_t heap, uint64_t handle);
void blockmap_remove(struct blockmap *m, uint32_t slot);
/* Change address and size of a live block, which keeps its slot. The new range must not overlap other blocks.
 * False when out of memory. */
bool blockmap_move(struct blockmap *m, uint32_t slot, uint64_t base, uint64_t size);
/* A live block, other than slot `except`, that overlaps [base, base + size); NO_SLOT if there is none. */
uint32_t blockmap_overlap(const struct blockmap *m, uint64_t base, uint64_t size, uint32_t except);
/* Does no live block overlap [base, base + size)? False also if that is not found out at once: for a range in several
 * pages, or in one that a block has alone. */
bool blockmap_is_clear(const struct blockmap *m, uint64_t base, uint64_t size);

/* A live block of `heap` that begins or ends at most `reach` bytes from [addr, addr + size), in which no block begins;
 * NO_SLOT = none. */
uint32_t blockmap_beside(const struct blockmap *m, uint64_t addr, uint64_t size, uint64_t reach,
                         uint32_t heap);

uint32_t blockmap_find_crowd(const struct blockmap *m, uint32_t crowd, uint64_t addr);

/* The last address of a block; of a block of size 0, its first. */
static inline uint64_t span_last(uint64_t base, uint64_t size)
{
    return base + (size ? size - 1 : 0);
}

/* Does a block end within the address space? */
static inline bool span_fits(uint64_t base, uint64_t size)
{
    return size == 0 || base + (size - 1) >= base;
}

/* Values of the page tables: 0 = none; odd = slot of the owner * 2 + 1; even = pointer to a leaf (level 0) or
 * twice the number of entries in the level below. */
static inline bool is_owner(uint64_t value)
{
    return value & 1;
}

static inline uint32_t owner_slot(uint64_t value)
{
    return (uint32_t)(value >> 1);
}

static inline uint32_t blockmap_find_high(const struct blockmap *m, uint64_t addr)
{
    for (unsigned level = 1; level <= m->top; level++) {
        uint64_t v = page_table_get(&m->levels[level], addr >> (PAGE_BITS + LEVEL_BITS * level));
        if (v)
            return is_owner(v) ? owner_slot(v) : NO_SLOT;
    }
    return NO_SLOT;
}

/* The only block that can contain addr. Its bounds have not been compared. */
static inline uint32_t blockmap_candidate(const struct blockmap *m, uint64_t addr)
{
    uint64_t v = page_table_get(&m->levels[0], addr >> PAGE_BITS);
    if (is_owner(v))
        return owner_slot(v);
    if (!v)
        return blockmap_find_high(m, addr);
    const struct leaf *leaf = (const struct leaf *)(uintptr_t)v;
    uint32_t g = leaf->granules[addr >> GRANULE_BITS & (PAGE_GRANULES - 1)];
    return g & CROWD ? blockmap_find_crowd(m, g & ~CROWD, addr) : g - 1;
}

/* Is the 4 KB page of addr touched by no block? */
static inline bool blockmap_empty_page(const struct blockmap *m, uint64_t addr)
{
    return !page_table_get(&m->levels[0], addr >> PAGE_BITS) && blockmap_find_high(m, addr) == NO_SLOT;
}

/* The slot of the block that contains the byte at addr, or NO_SLOT. */
static inline uint32_t blockmap_find(const struct blockmap *m, uint64_t addr)
{
    uint32_t slot = blockmap_candidate(m, addr);
    if (slot == NO_SLOT || addr - m->blocks[slot].base >= m->blocks[slot].size)
        return NO_SLOT;
    return slot;
}

/* The slot of the block that begins at addr, which may have size 0, or NO_SLOT. */
static inline uint32_t blockmap_at(const struct blockmap *m, uint64_t addr)
{
    uint32_t slot = blockmap_candidate(m, addr);
    return slot != NO_SLOT && m->blocks[slot].base == addr ? slot : NO_SLOT;
}

#endif
