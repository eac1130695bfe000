/* plan.h - an ops file decoded for replay.
 *
 * Reading text while an allocator runs would take more time than the allocator. The file is therefore read once,
 * checked (every handle is known and live) and stored as steps of 8 bytes in an anonymous file that the processes of
 * all drivers map. Loads, stores and modifies are checked, and omitted unless they are requested. Consecutive
 * accesses to the same or adjacent bytes of a block become one step.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PLAN_PLAN_H
#define DRIVERS_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum step_code {
    STEP_NEW,
    STEP_FREE,
    STEP_RESIZE,
    STEP_LOCK,
    STEP_UNLOCK,
    STEP_COMPACT,
    STEP_READ,
    STEP_WRITE
};

/* One step. `what` is the code and, for a new or resized block, its size above STEP_SHIFT bits. If the size does
 * not fit, it is STEP_BIG, and the following step has the size. For a read or write it is the number of bytes, all
 * of which are in the block, and the following step has the offset in the block. */
struct step {
    uint32_t slot;
    uint32_t what;
};
enum { STEP_SHIFT = 3, STEP_MASK = 7 };
#define STEP_BIG (UINT32_MAX >> STEP_SHIFT)

/* Does the following step belong to this one? */
static inline bool step_is_double(struct step s)
{
    uint32_t code = s.what & STEP_MASK;
    if (code == STEP_READ || code == STEP_WRITE)
        return true;
    return (code == STEP_NEW || code == STEP_RESIZE) && s.what >> STEP_SHIFT == STEP_BIG;
}

/* -- which thread did which steps of a plan, and when --
 *
 * A *run* is a sequence of steps of one thread. Runs, and the times of the N, F and R operations, are collected while
 * the file is read, and stored after the steps in the plan's file, which the driver's process maps. A run takes 24
 * bytes and a time 8; files without threads and times have neither. */

#define NO_RUN UINT32_MAX

struct run {
    uint64_t step;   /* its first step; its last is the one before the next run in the file */
    uint64_t op;     /* number of N, F and R operations before it */
    uint32_t thread; /* from 0, in the order of their first steps */
    uint32_t next;   /* next run of the same thread, or NO_RUN */
};

/* Offsets of the tables in the plan's file. Counts are 0 if the file has no such information. */
struct schedule_facts {
    uint32_t threads, runs;
    uint64_t times; /* one time per N, F and R */
    uint64_t runs_at, latency_at;
};

struct schedule;

struct plan_facts {
    uint64_t steps;                /* struct steps in the file, big sizes included */
    uint64_t news, frees, resizes; /* N, F and R operations: the ones that are counted as such */
    uint64_t locks, unlocks, compacts;
    uint64_t shared;          /* number of N and R at the address of a live block, if counted */
    uint64_t accesses;        /* number of accesses in the file */
    uint64_t uses;            /* number of STEP_READ and STEP_WRITE kept */
    uint64_t total_requested; /* sum of the sizes of all N and of enlargements by R, in bytes */
    uint64_t live_peak;       /* most bytes live at one time */
    uint64_t peak_op;         /* number of the operation (N, F or R) at which it was first reached */
    uint64_t live_at_end;     /* bytes */
    uint64_t blocks_at_end;
    uint64_t largest;               /* largest single request, bytes */
    uint32_t slots;                 /* most blocks live at one time; with threads, some more */
    struct schedule_facts schedule; /* tables after the steps */
};

struct plan {
    int fd; /* descriptor of the file of steps */
    struct plan_facts facts;
};

/* What to keep besides N, F, R and locks. */
struct plan_options {
    bool accesses;
    bool threads; /* which thread does what; an error if the file does not say */
    bool shared;  /* count what is put at the address of a live block, which takes a third of the time */
};

/* Read an ops file of either kind ("-": standard input). On error returns false and sets *text, with file, line or
 * operation, and remedy. */
bool plan_read(struct plan *plan, const char *path, struct plan_options options, char *text,
               unsigned text_size);
/* The same, but take the plan from the file `kept` if it has that of this ops file, and write it there otherwise. If that
 * fails, the plan is good all the same, and *text says why; else *text is "". An ops file that is no regular file is only
 * read. */
bool plan_read_kept(struct plan *plan, const char *path, const char *kept, struct plan_options options,
                    char *text, unsigned text_size);
/* Drop all steps after the first `ops` N, F and R operations; only facts.steps changes. False when out of memory. */
bool plan_cut(struct plan *plan, uint64_t ops);
void plan_close(struct plan *plan);

/* -- maps the handles of an ops file to small slot numbers --
 *
 * Handles count all blocks of a trace. A slot is reused when its block ends, so that other tables need only as many
 * entries as there are live blocks at most. Handles index a table of pages directly. A file that spreads few handles
 * over many pages is rejected before it takes much memory. */

#define HANDLES_LIMIT ((uint64_t)1 << 32) /* handles are below this */

enum handle_result {
    HANDLE_OK,
    HANDLE_UNKNOWN,    /* no N of it yet */
    HANDLE_DEAD,       /* it has been freed */
    HANDLE_LIVE,       /* N of a live handle */
    HANDLE_TOO_LARGE,  /* not below HANDLES_LIMIT */
    HANDLE_TOO_SPARSE, /* far more handle numbers than blocks */
    HANDLE_NO_MEMORY
};

struct handles;

/* delay: a slot is reused only when so many other free slots were freed before it. */
struct handles *handles_new(uint32_t delay);
void handles_delete(struct handles *h);

/* Process an N, an F or a use of a handle; *slot is its slot. */
enum handle_result handles_make(struct handles *h, uint64_t handle, uint32_t *slot);
enum handle_result handles_drop(struct handles *h, uint64_t handle, uint32_t *slot);
enum handle_result handles_find(const struct handles *h, uint64_t handle, uint32_t *slot);

/* number of slots ever used: the most blocks live at one time */
uint32_t handles_slots(const struct handles *h);
const char *handles_text(enum handle_result r); /* "is not live: freed before" ... */

#endif
