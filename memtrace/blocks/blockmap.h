/* blockmap.h - which live block holds an address.
 *
 * The recorder asks this for every access, so it is O(1): a hash table of 4 KB pages says for each page
 * either the one block that touches it, or a leaf with a block number for each 16-byte granule. Pages
 * that a large block covers whole are not entered one by one but as 2 MB, 1 GB, ... pages of five more
 * tables, so that a block of any size is entered and freed in at most a few thousand steps. Tables above
 * the lowest also count what is below them, which finds overlaps without a search.
 *
 * Blocks have any address and size that end within 64 bits (span_fits), and several may share a granule; a
 * zero-size block occupies its address but holds no byte. Live blocks never overlap: the owner of the map
 * frees what is in the way first (blockmap_overlap). Base and size are checked exactly: padding behind a
 * block is not the block.
 *
 * A block is known by its slot, a dense number, taken again as soon as it is free, latest first.
 * When memory runs out, functions fail, and the map may only be destroyed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_BLOCKMAP_H
#define MEMTRACE_BLOCKS_BLOCKMAP_H

#include "memtrace/blocks/page_table.h"

#include <stddef.h>

#define NO_SLOT UINT32_MAX

enum { BLOCKMAP_LEVELS = 6, PAGE_BITS = 12, LEVEL_BITS = 9, GRANULE_BITS = 4, PAGE_GRANULES = 256 };

/* A dead slot has size 0 and heap DEAD_HEAP. */
struct block {
    uint64_t base;
    uint64_t size;
    uint64_t handle;
    uint32_t heap;
    uint32_t note; /* the owner's; the next free slot while dead */
};
#define DEAD_HEAP UINT32_MAX

/* Blocks of one page by granule: 0 none, slot + 1, or CROWD | index of a crowd. */
struct leaf {
    uint32_t granules[PAGE_GRANULES];
    uint32_t count;    /* blocks that touch the page */
    struct leaf *next; /* in the list of free leaves */
};
#define CROWD 0x80000000u

/* Blocks that share a granule, at most one a byte. */
struct crowd {
    uint32_t count; /* while free: index + 1 of the next free crowd */
    uint32_t slots[1 << GRANULE_BITS];
};

struct blockmap {
    struct block *blocks; /* zeroed where never used; never NULL */
    uint32_t used;        /* slots ever used */
    uint32_t capacity;
    uint32_t free_slot; /* head of the list of free slots, NO_SLOT = none */
    uint64_t live;
    uint64_t pages_made; /* entries ever made: while it stays, empty pages stay empty */
    struct page_table levels[BLOCKMAP_LEVELS];
    uint64_t owners[BLOCKMAP_LEVELS]; /* entries of a level that are whole pages of a block */
    unsigned top;                     /* highest level with owners */
    struct leaf *free_leaves;
    struct crowd *crowds;
    uint32_t crowd_used, crowd_capacity, free_crowd;
};

bool blockmap_init(struct blockmap *m);
void blockmap_destroy(struct blockmap *m);

/* Enter a block that overlaps no live one; its slot, or NO_SLOT when out of memory. */
uint32_t blockmap_add(struct blockmap *m, uint64_t base, uint64_t size, uint32_t heap, uint64_t handle);
void blockmap_remove(struct blockmap *m, uint32_t slot);
/* Change place and size of a live block; the new range overlaps no other block. The slot stays. False when
 * out of memory. */
bool blockmap_move(struct blockmap *m, uint32_t slot, uint64_t base, uint64_t size);
/* Some live block that overlaps [base, base + size), other than slot `except`; NO_SLOT = none. */
uint32_t blockmap_overlap(const struct blockmap *m, uint64_t base, uint64_t size, uint32_t except);

/* A live block of `heap` that begins or ends at most `reach` bytes from [addr, addr + size), in which no block begins;
 * NO_SLOT = none. */
uint32_t blockmap_beside(const struct blockmap *m, uint64_t addr, uint64_t size, uint64_t reach,
                         uint32_t heap);

uint32_t blockmap_find_crowd(const struct blockmap *m, uint32_t crowd, uint64_t addr);

/* Last address of a block, which for a zero-size one is its first. */
static inline uint64_t span_last(uint64_t base, uint64_t size)
{
    return base + (size ? size - 1 : 0);
}

/* Does a block end within the address space? */
static inline bool span_fits(uint64_t base, uint64_t size)
{
    return size == 0 || base + (size - 1) >= base;
}

/* A page table value: 0 nothing, odd = owner's slot * 2 + 1, even = pointer to a leaf (level 0) or twice
 * the number of entries below (other levels). */
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

/* The only block that can hold addr, not yet compared with its bounds. */
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

/* Does no block touch the 4 KB page of addr? */
static inline bool blockmap_empty_page(const struct blockmap *m, uint64_t addr)
{
    return !page_table_get(&m->levels[0], addr >> PAGE_BITS) && blockmap_find_high(m, addr) == NO_SLOT;
}

/* The block that holds the byte at addr, or NO_SLOT. */
static inline uint32_t blockmap_find(const struct blockmap *m, uint64_t addr)
{
    uint32_t slot = blockmap_candidate(m, addr);
    if (slot == NO_SLOT || addr - m->blocks[slot].base >= m->blocks[slot].size)
        return NO_SLOT;
    return slot;
}

/* The block that begins at addr (zero-size ones too), or NO_SLOT. */
static inline uint32_t blockmap_at(const struct blockmap *m, uint64_t addr)
{
    uint32_t slot = blockmap_candidate(m, addr);
    return slot != NO_SLOT && m->blocks[slot].base == addr ? slot : NO_SLOT;
}

#endif
