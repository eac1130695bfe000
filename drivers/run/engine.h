/* engine.h - the replay: every step of a plan done on one driver.
 *
 * Locks are really held, across other operations. Two ways to go through the steps, compiled from one
 * source: TIMED times each; WATCHED calls a watcher after each. The third, without either, is engine_batch.c.
 * With kill_percent, at the end of the file so many percent of the live blocks, chosen evenly at random,
 * are freed and the file is done again with new blocks, until memory runs out.
 *
 * Runs in the driver's process: takes memory from raw_syscalls only, never from malloc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_ENGINE_H
#define DRIVERS_RUN_ENGINE_H

#include "drivers/base/shared.h"
#include "drivers/sdk/driver.h"

struct block {
    void *ref;     /* NULL: no block */
    void *fixed;   /* address while locked, NULL when it is not */
    uint64_t size; /* as asked for */
    uint32_t id;
};

/* Told of everything by a WATCHED run. `address` is NULL for a block that has no memory. */
struct watcher {
    void *ctx;
    /* after N: false stops the run as failed (the error text in shared memory is set) */
    bool (*made)(void *ctx, const struct block *b, void *address);
    bool (*freeing)(void *ctx, const struct block *b, void *address); /* before F, and before R */
    /* after R, followed by made: the first `bytes` bytes must be those that the block had */
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
    struct block *kept;   /* blocks of earlier rounds that are live still */
    uint64_t kept_count, kept_room;
    uint64_t ops; /* N, F and R done */
    uint64_t random;
    uint32_t first_id; /* of this round */
    bool
        spoiled; /* compaction moved what it may not, or changed it; the error text in shared memory is set */
    const struct watcher *watcher;
    uint64_t oom_time;                    /* of the last malloc, nanoseconds */
    uint64_t run_time, run_ops, run_most; /* TIMED: since the last point */
    uint64_t switches;                    /* TIMED: involuntary context switches until the last look */
};

/* Map the plan and make the tables. False: the error text in shared memory is set. */
bool engine_open(struct engine *e, struct shared *shared, const struct steve_driver *driver);

/* Replay; the result is in shared memory. */
void engine_timed(struct engine *e);
void engine_watched(struct engine *e, const struct watcher *w);

/* Parts that engine_batch.c has in common. */
enum outcome { GOES_ON, NO_ROOM, FAILED };
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Zeroed memory that is touched already: its page faults are not to be taken for the allocator's time. NULL:
 * no memory. */
void *engine_table(size_t bytes);
/* A block of `size` bytes, if need be after compaction (e->oom_time says what that took); NULL: no room. */
void *engine_malloc(struct engine *e, uint64_t size, uint32_t id);
/* A block gets another size: by realloc, or if the driver has none, by malloc, copy and free. Gives its ref
 * now, or NULL: no room, it is as it was. */
void *engine_resize(struct engine *e, void *ref, uint64_t old_size, uint64_t size, uint32_t id);
/* Let the allocator compact; `wanted` bytes are asked for, 0: none, the file wants it. True: worth trying
 * malloc again. In a WATCHED run with checking on, all live blocks are compared after it. */
bool engine_make_room(struct engine *e, size_t wanted);
/* Free exactly percent of the live blocks (rounded down), each with the same probability, and keep the others
 * for the next round under new ids. False: nothing would be left to run out of memory, or no memory for the
 * list; the run is then over. */
bool engine_kill_blocks(struct engine *e, uint32_t percent);
/* The next of a sequence of 64-bit numbers that depends on *state only. */
uint64_t engine_random(uint64_t *state);
/* Rewind for another round? Kills blocks on the way. */
bool engine_rewind(struct engine *e);
/* Set the status of the whole run. */
void engine_end(struct engine *e, enum outcome o);

/* The size of a new block; *at is behind its step and moves on over a big size. */
ALWAYS_INLINE uint64_t step_size(struct step s, const struct step **at)
{
    if (s.what >> STEP_SHIFT != STEP_BIG)
        return s.what >> STEP_SHIFT;
    const struct step big = *(*at)++;
    return big.slot | (uint64_t)big.what << 32;
}

/* The offset of a read or write; *at is behind its first step. */
ALWAYS_INLINE uint64_t step_offset(const struct step **at)
{
    const struct step offset = *(*at)++;
    return offset.slot | (uint64_t)offset.what << 32;
}

/* Read or write part of a block whose ref this is. */
void engine_use(const struct engine *e, void *ref, uint64_t from, struct step s);

/* The address of a live block now. */
void *engine_address(const struct engine *e, const struct block *b);

/* Is the operation just done a data point? */
static inline bool engine_at_point(const struct engine *e)
{
    uint64_t index = e->ops - 1;
    return index % e->shared->job.interval == 0 || e->ops == e->shared->job.total_ops;
}

#endif
