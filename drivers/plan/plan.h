/* plan.h - an ops file decoded for replay.
 *
 * Reading text while allocators run would cost more than the allocators. The file is read once, checked
 * (every handle known and live) and kept as 8 bytes per step in an anonymous file that the processes of all
 * drivers map. Loads, stores and modifies are checked, and left out unless they are asked for; then those
 * that follow each other and touch the same bytes of a block or the next ones become one. Takes 8 bytes per
 * step in memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PLAN_PLAN_H
#define DRIVERS_PLAN_PLAN_H

#include "drivers/plan/schedule.h"

#include <stdbool.h>
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

/* One step. `what` is the code and, for a new or resized block, its size above STEP_SHIFT bits; a size that
 * does not fit is STEP_BIG there and stands in the 8 bytes of the following step. Of a read or a write the
 * bytes stand there, all inside the block, and the offset in the block is the following step. */
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

struct plan_facts {
    uint64_t steps;                /* struct steps in the file, big sizes included */
    uint64_t news, frees, resizes; /* N, F and R operations: the ones that are counted as such */
    uint64_t locks, unlocks, compacts;
    uint64_t shared;          /* N and R that make a block at the address of a live one */
    uint64_t accesses;        /* all in the file */
    uint64_t uses;            /* STEP_READ and STEP_WRITE kept */
    uint64_t total_requested; /* sum of the sizes of all N, and of what R made larger; bytes */
    uint64_t live_peak;       /* most bytes live at one time */
    uint64_t peak_op;         /* op index (of N, F and R) where that was first reached */
    uint64_t live_at_end;     /* bytes */
    uint64_t blocks_at_end;
    uint64_t largest;               /* largest single request, bytes */
    uint32_t slots;                 /* most blocks live at one time; with threads, some more */
    struct schedule_facts schedule; /* behind the steps */
};

struct plan {
    int fd; /* the steps */
    struct plan_facts facts;
};

/* What to keep besides N, F, R, locks. */
struct plan_options {
    bool accesses;
    bool threads; /* who does what: the file must say so */
};

/* Read an ops file of either kind ("-": standard input). False: *text says file, line or op, and remedy. */
bool plan_read(struct plan *plan, const char *path, struct plan_options options, char *text,
               unsigned text_size);
/* Leave out all steps after the first `ops` N, F and R operations (only facts.steps changes). False: no
 * memory.
 */
bool plan_cut(struct plan *plan, uint64_t ops);
void plan_close(struct plan *plan);

#endif
