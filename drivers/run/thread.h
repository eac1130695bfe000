/* thread.h - one thread of the replay: its operations, each when the turn of its block has come.
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

struct thread_group;

/* One thread of the replay. */
struct thread {
    _Alignas(CACHE_LINE) struct thread_group *group;
    struct engine engine;           /* a copy: what calls note in it is this thread's own */
    uint32_t first;                 /* run */
    atomic_uint_fast64_t op;        /* operation under way, in the order of the file */
    atomic_uint_fast64_t ops;       /* done, by this thread */
    atomic_bool waits;              /* for its turn, the lock or a barrier: it is not in the allocator */
    atomic_uint_fast64_t reached;   /* the barrier at which it waits; 0 = none yet */
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

struct thread_group {
    struct engine *e;
    const struct run *runs;
    uint32_t *turn; /* by step: the block's steps before it */
    struct cell *cells;
    struct thread *threads;
    uint32_t count; /* of threads */
    bool serial;    /* calls are made one at a time */
    atomic_bool go, stop;
    pthread_mutex_t barrier; /* held by threads that wait for `moved_on` */
    pthread_cond_t moved_on;
    atomic_uint_fast64_t cut; /* the next barrier: operations from this number on are not begun */
    atomic_uint_fast64_t failed_op;        /* UINT64_MAX: nowhere */
    enum outcome failure;                  /* there */
    _Alignas(CACHE_LINE) atomic_bool held; /* the lock of serial calls */
};

/* Counters that one thread writes and others read; a late value does no harm. */
static inline uint64_t counter_get(const atomic_uint_fast64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static inline void counter_set(atomic_uint_fast64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

/* Number the steps and make the tables. False: an error, whose text is in shared memory. */
bool thread_group_open(struct thread_group *g, struct engine *e);
/* Wait until all threads are started. */
void thread_await_start(struct thread *t);
/* Do all steps of the thread; ends early after a failure of any thread. */
void thread_work(struct thread *t);

#endif
