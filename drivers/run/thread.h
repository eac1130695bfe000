/* thread.h - one thread of a replay on threads: does its operations, each when its block has reached the turn.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_THREAD_H
#define DRIVERS_RUN_THREAD_H

#include "drivers/run/engine.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CACHE_LINE = 64 };

struct thread;

/* A block, in a cache line of its own, so that threads wait for the allocator and not for each other's tables. */
struct cell {
    _Alignas(CACHE_LINE) void *ref;
    uint64_t size;
    atomic_uint turn; /* turn of the next step on it */
    uint32_t planned; /* number of steps on it, while they are counted */
    const struct thread *maker; /* the thread that allocated it */
    bool locked;
};

struct waits {
    uint64_t count, ticks;
};

struct thread_group;

/* One thread of the replay. */
struct thread {
    _Alignas(CACHE_LINE) struct thread_group *group;
    struct engine engine;     /* a copy, so that functions store results for this thread only */
    uint32_t first;           /* first run */
    atomic_uint_fast64_t op;  /* number of the current operation in the file */
    atomic_uint_fast64_t ops; /* number of operations done by this thread */
    /* it waits for its turn, the lock or a barrier, and is not in the allocator */
    atomic_bool waits;
    atomic_uint_fast64_t reached;   /* barrier at which it waits; 0 = none yet */
    uint64_t counts[STEP_MASK + 1]; /* number of steps done, by code */
    uint64_t bytes; /* bytes allocated less freed; the sum over all threads is the live bytes */
    uint64_t made;  /* bytes allocated */
    uint64_t remote_frees;
    struct waits for_turn, for_lock;
    uint64_t naps; /* number of system calls made by waiting */
    uint64_t cpu, blocked, ended;
    atomic_bool done;
    bool started;
    void *stack;
    pthread_t thread;
};

struct thread_group {
    struct engine *e;
    struct run *runs;
    uint32_t *turn; /* by step: number of earlier steps on its block */
    struct cell *cells;
    struct thread *threads;
    uint32_t count; /* number of threads */
    bool serial;    /* calls are made one at a time */
    atomic_bool go, stop;
    pthread_mutex_t barrier; /* held by threads that wait for `moved_on` */
    pthread_cond_t moved_on;
    atomic_uint_fast64_t cut;              /* next barrier: operations from this number on are not begun */
    atomic_uint_fast64_t failed_op;        /* UINT64_MAX = none */
    enum outcome failure;                  /* result of that operation */
    _Alignas(CACHE_LINE) atomic_bool held; /* the lock of serial calls */
};

/* Counters that one thread writes and others read. A value that is read late does no harm. */
static inline uint64_t counter_get(const atomic_uint_fast64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static inline void counter_set(atomic_uint_fast64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

/* Number the steps and allocate the tables. On error returns false and sets the text in shared memory. */
bool thread_group_open(struct thread_group *g, struct engine *e);
/* Wait until all threads are started. */
void thread_await_start(struct thread *t);
/* Do all steps of the thread. Ends early after a failure of any thread. */
void thread_work(struct thread *t);

#endif
