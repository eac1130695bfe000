/* latency.h - how operation times are distributed: a histogram of fixed size.
 *
 * Exact below 32 ns, 16 steps for each doubling above (so a percentile is off by 6% at most), no memory
 * allocated. It does not keep the order of times; the data points do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_LATENCY_H
#define DRIVERS_BASE_LATENCY_H

#include <stdint.h>

enum { LATENCY_STEPS = 16, LATENCY_BUCKETS = 64 * LATENCY_STEPS };

struct latency {
    uint64_t count, sum, most; /* operations, nanoseconds, longest */
    uint64_t preempted;        /* operations that were left out, because another process ran meanwhile */
    uint32_t buckets[LATENCY_BUCKETS];
};

void latency_add(struct latency *t, uint64_t nanoseconds);
/* The smallest time that `permille` of a thousand operations do not exceed; 0 when there are none. */
uint64_t latency_at(const struct latency *t, unsigned permille);

#endif
