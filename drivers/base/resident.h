/* resident.h - resident memory of another process, sampled while it runs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_RESIDENT_H
#define DRIVERS_BASE_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How often it is looked at, in milliseconds. */
enum { RESIDENT_EVERY_MS = 2 };

/* The samples so far, of which each counts for the time since the one before. Begin with zeros. */
struct resident_samples {
    pid_t process;         /* the one that had most of all samples */
    uint64_t most;         /* of it, bytes */
    uint64_t last, before; /* its latest two */
    uint64_t at;           /* when the last one was taken, wall time in nanoseconds; 0 = there is none */
    double sum, time;      /* bytes times nanoseconds; nanoseconds */
};

/* Take a sample of the process; if `tree`, of the one that has most among it and its descendants. None is taken if it
 * has ended, or cannot be read. */
void resident_look(struct resident_samples *s, pid_t process, bool tree);
/* The mean over time; 0 = there are no samples. */
uint64_t resident_mean(const struct resident_samples *s);
/* What was resident at the end of the process that had most. A process that is ending may have returned a part of its
 * memory at the last sample, so it is the greater of the last two. */
uint64_t resident_end(const struct resident_samples *s);

#endif
