/* pace.h - lets a replay take as long as the program did.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_RUN_PACE_H
#define STEVE_RUN_PACE_H

#include "drivers/base/clock.h"
#include "drivers/run/engine.h"

#include <stdint.h>
#include <time.h>

/* Wait until the moment at which the program would have done this operation, if the job has a pace. begun: wall time of
 * the first operation, ns. Returns how long it waited, ns. */
static inline uint64_t pace_keep(const struct engine *e, uint64_t begun)
{
    const struct job *j = &e->shared->job;
    const uint64_t all = j->facts.news + j->facts.frees + j->facts.resizes;
    if (!j->pace || !all)
        return 0;
    uint64_t due = begun + (uint64_t)((double)j->pace * (double)e->ops / (double)all);
    uint64_t now = clock_wall();
    if (now >= due)
        return 0;
    struct timespec pause = {(time_t)((due - now) / 1000000000u), (long)((due - now) % 1000000000u)};
    nanosleep(&pause, NULL);
    return clock_wall() - now;
}

#endif
