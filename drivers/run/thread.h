/* thread.h - the operations of one thread of a team, each when the block's turn has come to it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_THREAD_H
#define DRIVERS_RUN_THREAD_H

#include "drivers/run/engine.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CACHE_LINE = 64 };

/* A block, alone in its cache line: threads should wait for the allocator, not for each other's tables. */
struct cell {
    _Alignas(CACHE_LINE) void *ref;
    uint64_t size;
    atomic_uint turn; /* of the step on it that is next */
    uint32_t planned; /* steps on it, while they are counted */
    bool locked;
};

struct waits {
    uint64_t count, ticks;
};

struct turns;

/* One thread. */
struct lane {
    _Alignas(CACHE_LINE) struct turns *all;
    struct engine engine;           /* a copy: what calls note in it is this thread's own */
    uint32_t first;                 /* run */
    atomic_uint_fast64_t op;        /* operation under way, in the order of the file */
    atomic_uint_fast64_t ops;       /* done, by this thread */
    atomic_bool waits;              /* for its turn, for the lock or for the others: not in the allocator */
    atomic_uint_fast64_t halted;    /* the cut at which it stands still; 0 = none yet */
    uint64_t counts[STEP_MASK + 1]; /* steps done, by code */
    uint64_t bytes; /* made live less freed; sums over the threads wrap around to what is live */
    uint64_t made;  /* bytes asked for */
    struct waits for_turn, for_lock;
    uint64_t naps; /* system calls that waiting itself made */
    uint64_t cpu, blocked, ended;
    atomic_bool done;
    bool started;
    void *stack;
    pthread_t thread;
};

struct turns {
    struct engine *e;
    const struct run *runs;
    uint32_t *turn; /* by step: the block's steps before it */
    struct cell *cells;
    struct lane *lanes;
    uint32_t count; /* of lanes */
    bool serial;    /* calls are made one at a time */
    atomic_bool go, stop;
    pthread_mutex_t halt; /* who stands still waits for `on` */
    pthread_cond_t on;
    atomic_uint_fast64_t cut;              /* no operation with this number or a later one is begun */
    atomic_uint_fast64_t failed_op;        /* UINT64_MAX: nowhere */
    enum outcome failure;                  /* there */
    _Alignas(CACHE_LINE) atomic_bool held; /* the lock of serial calls */
};

/* What one thread tells the others, who need not know it in time. */
static inline uint64_t lane_get(const atomic_uint_fast64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static inline void lane_set(atomic_uint_fast64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

/* Number the steps and make the tables. False: the error text in shared memory is set. */
bool turns_open(struct turns *t, struct engine *e);
void turns_await_start(struct lane *l);
/* All steps of a thread, or as far as there is room for all. */
void turns_work(struct lane *l);

#endif
