/* engine.h - the replay: does every step of a plan on one driver.
 *
 * Locks are held across other operations, as in the file. There are two ways to go through the steps, compiled
 * from one source: TIMED measures the time of each operation; WATCHED calls a watcher after each. The third way,
 * without either, is engine_batch.c. With kill_percent, a random part of the live blocks is freed at the end of
 * the file, and the file is replayed again with new blocks, until memory runs out.
 *
 * This runs in the driver's process: it allocates memory with raw_syscalls only, never with malloc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_ENGINE_H
#define DRIVERS_RUN_ENGINE_H

#include "drivers/base/shared.h"
#include "drivers/sdk/driver.h"

struct block {
    void *ref;     /* NULL: no block */
    void *fixed;   /* address while it is locked, otherwise NULL */
    uint64_t size; /* as requested */
    uint32_t id;
    uint32_t tag; /* of the watcher; 0 in a new block, and kept by a resize */
};

/* Callbacks of a WATCHED run. `address` is NULL for a block without memory. */
struct watcher {
    void *ctx;
    /* after N. False: the run has failed, and the error text in shared memory is set */
    bool (*made)(void *ctx, struct block *b, void *address);
    bool (*freeing)(void *ctx, const struct block *b, void *address); /* before F, and before R */
    /* after R, and before made: the first `bytes` bytes must be as before */
    bool (*kept)(void *ctx, const struct block *b, void *address, uint64_t bytes);
    void (*locked)(void *ctx, const struct block *b, bool locked);
    /* optional: bytes from..from + bytes of the block were read or written */
    void (*used)(void *ctx, const struct block *b, void *address, uint64_t from, uint64_t bytes, bool write);
    bool (*done)(void *ctx, char op, uint64_t size); /* after each N, F and R; op_index is in shared memory */
};

struct engine {
    const struct steve_driver *driver;
    struct shared *shared;
    const struct step *steps;
    struct block *blocks; /* by slot */
    struct block *kept;   /* blocks of earlier rounds that are still live */
    uint64_t kept_count, kept_room;
    uint64_t ops; /* number of N, F and R done */
    uint64_t random;
    uint32_t first_id; /* first id of this round */
    bool spoiled;      /* a block was damaged by compaction or before the end of a round; error text set */
    bool refused;      /* WATCHED: a request for memory was refused, and the operation was repeated */
    const struct watcher *watcher;
    uint64_t oom_time;                    /* of the last malloc, nanoseconds */
    uint64_t run_time, run_ops, run_most; /* TIMED: since the last data point */
    /* TIMED: number of involuntary context switches when it was last read */
    uint64_t switches;
};

/* Map the plan and allocate the tables. On error returns false and sets the error text in shared memory. */
bool engine_open(struct engine *e, struct shared *shared, const struct steve_driver *driver);

/* Replay; the result is in shared memory. */
void engine_timed(struct engine *e);
void engine_watched(struct engine *e, const struct watcher *w);

/* -- shared with engine_batch.c and threads.c -- */
enum outcome { GOES_ON, NO_ROOM, FAILED };
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Zeroed memory whose pages are already present, so that their faults do not count as the allocator's time. Children
 * of this process do not have it. NULL: out of memory. */
void *engine_table(size_t bytes);
/* Allocate a block, if necessary after compaction, whose time is then in e->oom_time. NULL: no room. */
void *engine_malloc(struct engine *e, uint64_t size, uint32_t id);
/* Resize a block by realloc, or by malloc, copy and free if the driver has no realloc. Returns its new ref; NULL: no
 * room, and the block is unchanged. */
void *engine_resize(struct engine *e, void *ref, uint64_t old_size, uint64_t size, uint32_t id);
/* Let the allocator compact because a malloc of `wanted` bytes failed or, if 0, because the file says so. True if
 * malloc may succeed now. In a WATCHED run with --check, all live blocks are compared afterwards. */
bool engine_make_room(struct engine *e, size_t wanted);
/* Free exactly this percentage of the live blocks (rounded down), each with the same probability. The others get
 * new ids and are kept for the next round. False, and the run is over, if memory would never run out or is not
 * sufficient for the list. */
bool engine_kill_blocks(struct engine *e, uint32_t percent);
/* The next of a sequence of 64-bit numbers that depends on *state only. */
uint64_t engine_random(uint64_t *state);
/* Start another round, after freeing the random part of the live blocks. False: there is no further round. */
bool engine_rewind(struct engine *e);
/* Set the status of the whole run. */
void engine_end(struct engine *e, enum outcome o);

/* The size of a new block. *at points after its step, and advances past a big size. */
ALWAYS_INLINE uint64_t step_size(struct step s, const struct step **at)
{
    if (s.what >> STEP_SHIFT != STEP_BIG)
        return s.what >> STEP_SHIFT;
    const struct step big = *(*at)++;
    return big.slot | (uint64_t)big.what << 32;
}

/* The offset of a read or write. *at points after its first step, and advances past the offset. */
ALWAYS_INLINE uint64_t step_offset(const struct step **at)
{
    const struct step offset = *(*at)++;
    return offset.slot | (uint64_t)offset.what << 32;
}

/* Read or write part of a block whose ref this is. */
void engine_use(const struct engine *e, void *ref, uint64_t from, struct step s);

/* Write to bytes from..to of a block, which are new, as the job says. For a driver without memory as many writes go to
 * one page, so that what they take can be taken off, but not the page faults and cache misses of the others. */
void engine_touch(const struct engine *e, void *ref, uint64_t from, uint64_t to);

/* The current address of a live block. */
void *engine_address(const struct engine *e, const struct block *b);

/* Was the last operation a data point? */
static inline bool engine_at_point(const struct engine *e)
{
    uint64_t index = e->ops - 1;
    return index % e->shared->job.interval == 0 || e->ops == e->shared->job.total_ops ||
           index == e->shared->job.peak_point;
}

#endif
