/* block_sample.h - which blocks a sampled recording contains (ljtrace run --sample).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each byte that is allocated is chosen with the probability 1/mean, independently of all others; a block is recorded if
 * one of its bytes is chosen, so with the probability 1 - exp(-size/mean). The distance to the next chosen byte is
 * exponentially distributed. Each thread counts down to it, so a block that is not recorded costs a comparison and a
 * subtraction. A block of 0 bytes is never recorded. A realloc ends its old block and makes a new one, about which the
 * countdown decides anew; so the probability of each block depends on its size only.
 *
 * A recorded block is in a table until it ends. A bitmap in front of the table shows that nearly all other blocks are not
 * in it. What is not sampled is recorded as a whole; then the mean is 0, and nothing is passed over.
 */
#ifndef LJTRACE_NATIVE_INSIDE_BLOCK_SAMPLE_H
#define LJTRACE_NATIVE_INSIDE_BLOCK_SAMPLE_H

#include "ljtrace/native/inside/native.h"

/* Constants of the bitmap; the assembly code of lua_allocator.c uses them, too. A block's bit is that of its address in
 * units of 16 bytes, mixed with the number of its 16 MiB. */
#define SAMPLE_FILTER_BITS 20
#define SAMPLE_UNIT_SHIFT 4
#define SAMPLE_REGION_SHIFT 24
#define SAMPLE_MIX 0x9e37b

/* Of a thread. lua_allocator.c knows the offsets of left and attends. */
struct native_countdown {
    uint64_t left;      /* bytes up to and with the next chosen one; 0 = not drawn yet */
    uint32_t attends;   /* calls of Lua's allocators need attention, recorded or not */
    bool chosen;        /* the result of the last block_sample_draw */
    uint64_t random;    /* the state of its generator; 0 = not seeded */
    uint32_t recording; /* block_sample_recording when left was drawn */
};

#define BLOCK_SAMPLE_HIDDEN __attribute__((visibility("hidden")))
extern BLOCK_SAMPLE_HIDDEN __thread struct native_countdown native_countdown
    __attribute__((tls_model("initial-exec")));
extern BLOCK_SAMPLE_HIDDEN uint64_t block_sample_mean; /* bytes; 0 = all blocks are recorded */
extern BLOCK_SAMPLE_HIDDEN uint32_t
    block_sample_recording; /* number of the recording in this process, from 1 */
extern BLOCK_SAMPLE_HIDDEN uint64_t *block_sample_filter; /* the bitmap, once a recording has begun */

/* A recording begins, of a sample or of all blocks. The ring is locked. */
void block_sample_begin(void);
/* The recording ends: forget the recorded blocks. The ring is locked. */
void block_sample_end(void);
/* This is a forked child: its sample is independent of its parent's from now on. */
void block_sample_forked(void);
uint64_t block_sample_seed(void);

/* Is a block of this size passed over? If not, block_sample_draw decides. */
static inline bool block_sample_passes(uint64_t size)
{
    struct native_countdown *c = &native_countdown;
    if (size >= c->left || c->recording != block_sample_recording || !block_sample_mean)
        return false;
    c->left -= size;
    return true;
}

/* Is a block of this size recorded? Counts its bytes. */
bool block_sample_draw(uint64_t size);

static inline bool block_sample_chooses(uint64_t size)
{
    return !block_sample_passes(size) && block_sample_draw(size);
}

static inline uint32_t block_sample_bit(uint64_t addr)
{
    return (uint32_t)((addr >> SAMPLE_UNIT_SHIFT) ^ (addr >> SAMPLE_REGION_SHIFT) * SAMPLE_MIX) &
           ((1 << SAMPLE_FILTER_BITS) - 1);
}

/* Is it certain, without a lock, that no recorded block begins at the address? */
static inline bool block_sample_lacks(uint64_t addr)
{
    const uint32_t bit = block_sample_bit(addr);
    return block_sample_mean &&
           !(__atomic_load_n(&block_sample_filter[bit / 64], __ATOMIC_RELAXED) >> bit % 64 & 1);
}

/* Let block_sample_lacks return false until the block is in the table. */
void block_sample_expect(uint64_t addr);

/* -- the table; only while the ring is locked -- */

/* A block is recorded. heap: 0, or a Lua heap. Returns false if there is no memory for it. */
bool block_sample_add(uint64_t addr, uint64_t heap);
/* Is a recorded block there? */
bool block_sample_holds(uint64_t addr);
/* A block ends. Returns false if it is not recorded. */
bool block_sample_remove(uint64_t addr);
/* The end of this block must not be passed over, whether it is recorded or not. */
void block_sample_await(uint64_t addr);
/* All blocks of a Lua heap have ended, or belong to another heap from now on. */
void block_sample_heap_ended(uint64_t heap);
void block_sample_heap_moved(uint64_t from, uint64_t to);

#endif
