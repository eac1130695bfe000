/* latency.h - the distribution of operation times: a histogram of fixed size.
 *
 * Times below 32 ns are exact. Above, each doubling has 16 buckets, so a percentile is wrong by at most 6%. No memory
 * is allocated. The order of times is not kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_LATENCY_H
#define DRIVERS_BASE_LATENCY_H

#include <stdint.h>

enum { LATENCY_STEPS = 16, LATENCY_BUCKETS = 64 * LATENCY_STEPS };

struct latency {
    uint64_t count, sum, most; /* number of operations, sum and maximum in nanoseconds */
    uint64_t preempted;        /* number of operations excluded because another process ran meanwhile */
    uint32_t buckets[LATENCY_BUCKETS];
};

/* Add all times of `more` to t. */
void latency_join(struct latency *t, const struct latency *more);
void latency_add(struct latency *t, uint64_t nanoseconds);
/* The smallest time that `permille` of a thousand operations do not exceed; 0 if there are no operations. */
uint64_t latency_at(const struct latency *t, unsigned permille);

#endif
