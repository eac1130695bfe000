/* jeff.h - Jeff: an allocator with handles, locks and compaction.
 *
 * malloc gives a handle, not an address; lock gives the address and keeps the block there until unlock. What
 * is not locked may be slid together when memory is short, so that the free pieces become one. It is the
 * allocator that traces with locks exist for. After the design of the original Steve's rmalloc, written anew.
 *
 * Blocks grow up from the bottom of the heap, their headers grow down from its top. It makes no system
 * calls but the clock's and keeps all its state in the struct and the heap; one thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ALLOCATORS_JEFF_H
#define DRIVERS_ALLOCATORS_JEFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JEFF_SLOTS = 48 };

/* A header is what a handle points to. It never moves. */
struct jeff_block {
    char *memory;
    size_t size;           /* bytes, a multiple of 16; below that, flags */
    uint32_t below, above; /* headers of the neighbours by address; 0 = none */
};

struct jeff {
    char *base, *top, *end; /* blocks lie from base to top */
    uint32_t headers;       /* headers in the table, used or spare; they are numbered from 1, down from end */
    uint32_t spare;         /* list of those without a block, linked by `above` */
    uint32_t lowest, highest;   /* blocks by address */
    uint32_t slots[JEFF_SLOTS]; /* lists of free blocks, one for each power of two from 16 */
    uint64_t filled;            /* bit: the slot's list is not empty */
    bool coalesce;              /* join free neighbours when a block is freed */
    size_t free_bytes, free_blocks, locked_blocks; /* free blocks do not include what is above top */
    uint64_t compactions, moved;                   /* moved: bytes, in all of them */
};

enum { JEFF_USED = 1, JEFF_LOCKED = 2, JEFF_WEAK = 4, JEFF_FLAGS = 15 }; /* in jeff_block.size */

static inline size_t jeff_usable(const struct jeff_block *handle)
{
    return handle->size & ~(size_t)JEFF_FLAGS;
}

/* Start in `size` bytes at `base`, which is 16-byte aligned. False: too small. */
bool jeff_init(struct jeff *j, void *base, size_t size, bool coalesce);

/* A handle, or NULL: no room without compaction. */
struct jeff_block *jeff_malloc(struct jeff *j, size_t size);
void jeff_free(struct jeff *j, struct jeff_block *handle); /* may be locked */
/* A handle of a block with the content, the same or another one; NULL: no room, the old one stays. */
struct jeff_block *jeff_realloc(struct jeff *j, struct jeff_block *handle, size_t size);

void *jeff_lock(struct jeff *j, struct jeff_block *handle);
void jeff_unlock(struct jeff *j, struct jeff_block *handle);
/* The address, without keeping the block there. weak_unlock says whether it stayed there all the time. */
void *jeff_weak_lock(struct jeff_block *handle);
bool jeff_weak_unlock(struct jeff_block *handle);

/* Slide blocks that are not locked down over free ones, for about `milliseconds` at most; 0 = to the end.
 * True: it came to the end. (jeff_compact.c) */
bool jeff_compact(struct jeff *j, unsigned milliseconds);

size_t jeff_gap(const struct jeff *j);     /* bytes between the blocks and the headers */
size_t jeff_largest(const struct jeff *j); /* largest block that jeff_malloc gives now; 0 = none */

/* -- between jeff.c and jeff_compact.c -- */
static inline struct jeff_block *jeff_header(const struct jeff *j, uint32_t number) /* 0: NULL */
{
    return number ? (struct jeff_block *)j->end - number : NULL;
}
/* Put a free block of [from, to) into chain and slots below the block `above` (NULL: at the top of the
 * chain). False: no header to be had; nothing changed. */
bool jeff_insert_free(struct jeff *j, char *from, char *to, struct jeff_block *above);
void jeff_remove_free(struct jeff *j, struct jeff_block *b); /* its opposite; the header becomes spare */
/* Empty all slots at once; every free block must then be taken out with jeff_remove_forgotten. */
void jeff_forget_free(struct jeff *j);
void jeff_remove_forgotten(struct jeff *j, struct jeff_block *b);

#endif
