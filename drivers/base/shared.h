/* shared.h - the memory that steve-replay and the process of a driver share.
 *
 * The driver's process reads its job from it and writes its results to it. If that process crashes or hangs, the
 * results so far and the current operation remain. Everything is plain data without pointers. The descriptors below
 * are open in the driver's process under these numbers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_SHARED_H
#define DRIVERS_BASE_SHARED_H

#include "drivers/base/cell_layout.h"
#include "drivers/base/clock.h"
#include "drivers/base/counters.h"
#include "drivers/base/fragmentation.h"
#include "drivers/base/islands.h"
#include "drivers/base/latency.h"
#include "drivers/heap/region.h"
#include "drivers/plan/plan.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* -- writes to new blocks and uses them later, as the program did --
 *
 * Memory that was never written takes no physical memory and is not in the caches. Not every trace says which part of
 * a block the program writes, so the user chooses. */

enum touch { TOUCH_NONE, TOUCH_FIRST, TOUCH_PAGES, TOUCH_ALL, TOUCHES };

/* Names by value, for options and results. */
extern const char *const touch_names[TOUCHES];

/* Write to bytes from..to of a block, which are new: nothing, the block's first byte, or a byte in each page or cache
 * line in which they lie. */
static inline void touch_range(void *block, uint64_t from, uint64_t to, enum touch touch)
{
    uintptr_t last = touch == TOUCH_ALL ? 63 : 4095, first = (uintptr_t)block;
    if (touch == TOUCH_NONE)
        return;
    if (touch == TOUCH_FIRST && to > 1)
        to = 1;
    for (uintptr_t at = first + from; at < first + to; at = (at | last) + 1)
        *(volatile unsigned char *)at = 1;
}

static inline void touch_block(void *block, uint64_t size, enum touch touch)
{
    touch_range(block, 0, size, touch);
}

/* Read part of a block, or write the bytes that it contains already, once per cache line. */
static inline void use_range(volatile unsigned char *p, uint64_t size, bool write)
{
    for (uint64_t i = 0; i < size; i += 64) {
        unsigned char byte = p[i];
        if (write)
            p[i] = byte;
    }
}

enum { SHARED_FD = 10, PLAN_FD = 11, FRAMES_FD = 12 };

/* What a process of the driver is started for. Each job gets a new process. */
enum job_kind {
    JOB_INFO,          /* open the driver and describe it */
    JOB_FIT,           /* only determine whether the heap is large enough */
    JOB_BATCH,         /* replay without timing single operations */
    JOB_TIMED,         /* replay timing every operation */
    JOB_SPACE,         /* replay measuring space at the data points */
    JOB_FILM,          /* replay, writing scenes into FRAMES_FD (drivers/film/scene.h) */
    JOB_THREADS,       /* replay on real threads, without timing single operations */
    JOB_THREADS_SPACE, /* as JOB_THREADS, measuring the heap at barriers */
    JOB_PIECES,        /* replay, timing the operations between two data points as one */
    JOB_PLACES,        /* replay and write where blocks are into FRAMES_FD */
    JOB_SYSTEM,        /* replay on malloc of the process */
    JOB_ONCE           /* as JOB_BATCH, once and with counters */
};

/* The unit of a film's time: N, F and R operations, bytes of N and R, or instructions of the traced program. */
enum film_time { FILM_OPS, FILM_BYTES, FILM_INSTRUCTIONS, FILM_TIMES };
extern const char *const film_time_names[FILM_TIMES];

/* What the colour of used bytes shows: that they are used, the age of their blocks, the size, or the site that made them. */
enum film_colour { FILM_STATE, FILM_AGE, FILM_SIZE, FILM_SITE, FILM_COLOURS };
extern const char *const film_colour_names[FILM_COLOURS];

/* FILM_SITE: sites with a colour of their own; the others have one together. Bytes of a name. */
enum { FILM_SITES = 5, SITE_NAME = 64 };

enum film_kind { FILM_MOVIE, FILM_STILL, FILM_POSTER };

struct film_size {
    enum film_kind kind;
    enum cell_layout layout;
    uint32_t width, height; /* pixels */
    enum film_time time;    /* the unit of time */
    enum film_colour colour;
    uint64_t total;         /* of the whole replay, in the unit of `time` */
    uint64_t per_frame;     /* the same of one frame */
    uint64_t first;         /* FILM_INSTRUCTIONS: those executed before the film begins */
    struct islands islands; /* parts of the heap that are drawn */
    uint64_t extent;        /* bytes that are drawn */
    uint64_t most;          /* bytes at the full height of the strip */
    uint64_t at;            /* FILM_STILL: the number of operations before the picture */
    uint32_t sites;         /* FILM_SITE: how many have names */
    char site_names[FILM_SITES][SITE_NAME];
};

struct job {
    enum job_kind kind;
    uint32_t confinement; /* of the driver, as JOB_INFO found it */
    uint32_t flags;       /* likewise */
    char driver[PATH_MAX];
    uint64_t heap; /* size in bytes */
    struct plan_facts facts;
    struct clock_facts clock; /* not in JOB_INFO and JOB_FIT, which time nothing */
    uint64_t interval; /* distance of data points in N, F and R operations; the last operation is one, too */
    /* Index of the operation of the live peak, which is a data point, too; UINT64_MAX = it is none. */
    uint64_t peak_point;
    uint64_t total_ops; /* N, F and R operations of the whole run, 0 = not known */
    uint64_t seed;
    uint32_t kill_percent; /* 0 = one pass */
    uint32_t rounds;       /* passes over the file at most */
    enum touch touch;      /* how new blocks are written to, outside of what is timed */
    bool writes;           /* JOB_ONCE: in the time that is measured, too */
    bool check;            /* fill blocks with a pattern and compare it when they are freed */
    uint32_t workers;      /* real threads at most, 0 = as many as the file has */
    uint64_t fail_nth; /* JOB_SPACE: number of the request for memory, from 1, that is refused; 0 = none */
    struct film_size film;
    uint64_t places_at;   /* JOB_PLACES: after how many operations; 0 = find the worst moment */
    char sites[PATH_MAX]; /* FILM_SITE: the file that names the site of each block (drivers/film/sites.h), */
    uint64_t sites_at, sites_blocks; /* where in it the blocks begin, and how many there are */
    uint64_t pace; /* JOB_SYSTEM, JOB_SPACE: nanoseconds that the replay takes at least, 0 = full speed */
};

enum job_status {
    STATUS_RUNNING,
    STATUS_DONE,
    STATUS_NO_ROOM, /* the heap was too small at op_index */
    STATUS_FAILED   /* text describes the error */
};

/* Operations whose times are kept separately. */
enum timed_op { TIMED_MALLOC, TIMED_FREE, TIMED_REALLOC, TIMED_OPS };

/* A data point: the state after an operation (N, F or R). Times in nanoseconds, sizes in bytes. */
struct point {
    uint64_t op_index, size;
    uint64_t used, free, overhead, maxmem;
    uint64_t committed, resident, highest, locked, blocks;
    uint64_t chunks; /* number of free pieces, UINT64_MAX = not known */
    uint64_t op_time, oom_time, maxmem_time;
    uint64_t interval_ops, interval_time, interval_most; /* since the last point, of single operations */
    uint64_t batch_ops, batch_time;                      /* since the last point, timed as one; JOB_PIECES */
    char op;
};

struct shared_info {
    char name[64], description[160], package[64], reason[240];
    uint32_t confinement, flags;
    uint64_t least_heap;
    bool walks, has_usable, has_header, compacts;
};

/* Results of a replay on threads. Times are in nanoseconds and, except `wall`, summed over the threads. */
struct threads_result {
    uint32_t threads;
    bool locked;                      /* calls were made one at a time, under the replay's own lock */
    uint64_t wall, cpu, cpu_most;     /* cpu_most: of the thread with the most */
    uint64_t waits, waited;           /* for an operation of another thread on the same block */
    uint64_t lock_waits, lock_waited; /* for the replay's own lock */
    /* number of times that a thread yielded the processor inside the allocator */
    uint64_t blocked;
    uint64_t news, frees, resizes, live_at_end;
    uint64_t remote_frees; /* of blocks that another thread allocated */
};

/* The heap in a replay on threads, measured at barriers (drivers/run/threads.c), in bytes. Fragmentation is that
 * of resident memory. Mapped memory would include addresses that allocators reserve for each thread. */
struct threads_space {
    uint64_t barriers, made, most_used, most_resident;
    struct fragmentation fragmentation;
};

/* JOB_SYSTEM: the process during the replay. Bytes and nanoseconds. */
struct system_result {
    uint64_t baseline;          /* resident before the first operation */
    uint64_t peak, end;         /* resident in the whole process: most, and after the last operation */
    uint64_t ended;             /* the same as end, after all threads have ended */
    uint64_t mean;              /* of the samples, above the baseline */
    uint64_t running, sampled;  /* 1 = the replay has begun and not ended; there were samples */
    uint64_t user, system, cpu; /* cpu: both, without taking the samples */
    uint64_t wall, faults;
};

/* Space at the moment of the most resident bytes, in bytes. used: requested by live blocks; usable: usable by them;
 * headers: of their headers. */
struct space_peak {
    uint64_t resident, mapped, used, usable, headers;
};

struct shared {
    struct job job;
    pid_t owner; /* process of steve-replay; when it ends, the driver's process ends, too */
    struct shared_info info;
    /* the following is written by the driver's process */
    volatile uint64_t heartbeat; /* changes while there is progress */
    volatile uint64_t op_index;  /* number of the current N, F or R operation, from 0, across rounds */
    volatile enum job_status status;
    char text[240];
    uint64_t rounds, odd_locks, killed;
    uint64_t wall, cpu; /* nanoseconds of the first complete replay in the process */
    uint64_t warm_cpu;  /* the same for the fastest repetition, JOB_BATCH; 0 = none */
    uint64_t allocated; /* sum of the sizes of N and R, JOB_SPACE; bytes */
    uint64_t highest;   /* greatest extent of the heap, bytes */
    /* bytes allocated outside of the heap during the replay, JOB_SPACE */
    uint64_t outside;
    struct space_peak peak; /* measured now and then, JOB_SPACE */
    uint64_t end_resident;  /* bytes of the heap in memory after the last operation, JOB_SPACE */
    /* range of addresses of blocks, in bytes from the start of the heap */
    uint64_t lowest_block, highest_block;
    struct islands islands; /* parts of this range with blocks; one for an allocator that moves blocks */
    struct latency times[TIMED_OPS];    /* JOB_TIMED */
    struct fragmentation fragmentation; /* JOB_SPACE: of what is mapped */
    struct fragmentation in_memory;     /* JOB_SPACE: of resident pages, at the data points */
    uint64_t clock_cost, clock_step;    /* picoseconds */
    uint64_t clock_counter;             /* 1 = time stamp counter */
    struct region_refusal refusal;      /* JOB_SPACE */
    struct counters counters;           /* JOB_ONCE */
    uint64_t frames;
    uint64_t places_at;             /* JOB_PLACES: the worst moment, as the number of operations before it */
    struct threads_result threaded; /* JOB_THREADS */
    struct threads_space threads_space; /* JOB_THREADS_SPACE */
    struct system_result system;        /* JOB_SYSTEM */
    uint64_t room, count;               /* number of points: room for them, and those stored */
    struct point points[];
};

/* Allocate the shared memory, with its descriptor; NULL when out of memory. */
struct shared *shared_new(uint64_t room, int *fd);
void shared_delete(struct shared *b, int fd);

#endif
