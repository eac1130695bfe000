/* jeff.h - Jeff: an allocator with handles, locks and compaction.
 *
 * malloc returns a handle, not an address. lock returns the address and prevents the block from moving until unlock.
 * When memory is short, blocks that are not locked may be moved together, so that the free memory becomes one block.
 * Traces with locks exist for this allocator. It follows the design of rmalloc of the original Steve, but the code is
 * new.
 *
 * Blocks grow up from the bottom of the heap, their headers grow down from its top. It makes no system calls except
 * for the clock, keeps all its state in the struct and the heap, and supports one thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ALLOCATORS_JEFF_H
#define DRIVERS_ALLOCATORS_JEFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JEFF_LISTS = 48 };

/* A header, to which a handle points. It never moves. */
struct jeff_block {
    char *memory;
    size_t size;           /* size in bytes, a multiple of 16, with flags in the low bits */
    uint32_t below, above; /* headers of the neighbours by address; 0 = none */
};

struct jeff {
    char *base, *top, *end; /* blocks lie from base to top */
    /* number of headers in the table, used or spare; they are numbered from 1, down from end */
    uint32_t headers;
    uint32_t spare;             /* list of headers without a block, linked by `above` */
    uint32_t lowest, highest;   /* blocks with the lowest and the highest address */
    uint32_t lists[JEFF_LISTS]; /* lists of free blocks, one for each power of two from 16 */
    uint64_t filled;            /* bit set: the list is not empty */
    bool coalesce;              /* join free neighbours when a block is freed */
    size_t free_bytes, free_blocks,
        locked_blocks; /* free blocks do not include the unused memory above top */
    uint64_t compactions, moved;                   /* moved: sum of bytes */
};

enum { JEFF_USED = 1, JEFF_LOCKED = 2, JEFF_WEAK = 4, JEFF_FLAGS = 15 }; /* in jeff_block.size */

static inline size_t jeff_usable(const struct jeff_block *handle)
{
    return handle->size & ~(size_t)JEFF_FLAGS;
}

/* Start in `size` bytes at `base`, which is 16-byte aligned. False: too small. */
bool jeff_init(struct jeff *j, void *base, size_t size, bool coalesce);

/* Returns a handle, or NULL if there is no room without compaction. */
struct jeff_block *jeff_malloc(struct jeff *j, size_t size);
void jeff_free(struct jeff *j, struct jeff_block *handle); /* may be locked */
/* Returns the handle of a block with the same content, which may be another one. NULL if there is no room; the old
 * block is then unchanged. */
struct jeff_block *jeff_realloc(struct jeff *j, struct jeff_block *handle, size_t size);

void *jeff_lock(struct jeff *j, struct jeff_block *handle);
void jeff_unlock(struct jeff *j, struct jeff_block *handle);
/* The address, without locking the block. weak_unlock says whether the block stayed there all the time. */
void *jeff_weak_lock(struct jeff_block *handle);
bool jeff_weak_unlock(struct jeff_block *handle);

/* Move blocks that are not locked down over free ones, for at most about `milliseconds`; 0 = without limit. True
 * if all was compacted. (jeff_compact.c) */
bool jeff_compact(struct jeff *j, unsigned milliseconds);

size_t jeff_unused_bytes(const struct jeff *j); /* bytes between the blocks and the headers */
size_t jeff_largest(const struct jeff *j); /* largest block that jeff_malloc gives now; 0 = none */

/* -- between jeff.c and jeff_compact.c -- */
static inline struct jeff_block *jeff_header(const struct jeff *j, uint32_t number) /* 0: NULL */
{
    return number ? (struct jeff_block *)j->end - number : NULL;
}
/* Add a free block of [from, to) to the chain, below the block `above` (NULL: at the top), and to its list. False,
 * without any change, if there is no header for it. */
bool jeff_insert_free(struct jeff *j, char *from, char *to, struct jeff_block *above);
void jeff_remove_free(struct jeff *j, struct jeff_block *b); /* the inverse; the header becomes spare */
/* Clear all lists at once. All free blocks must then be removed with jeff_remove_forgotten. */
void jeff_forget_free(struct jeff *j);
void jeff_remove_forgotten(struct jeff *j, struct jeff_block *b);

#endif
