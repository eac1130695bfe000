/* sample.h - how many blocks a recorded one stands for, in a trace that is a sample (ljtrace run --sample).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A block of `size` bytes was recorded with the probability p = 1 - exp(-size/mean), independently of all others. Its
 * weight is 1/p. A sum of x over all blocks is estimated by the sum of x/p over the recorded ones, and this has no bias
 * (the estimator of Horvitz and Thompson). The variance of the estimate is the sum of x^2 (1-p)/p over all blocks; it is
 * estimated by the sum of x^2 (1-p)/p^2 over the recorded ones. Standard errors are its square root.
 *
 * Analyses count in whole numbers. x/p is rounded up with the probability of its fraction, so the rounding adds no bias
 * either. It is decided by the handle of the block, so all analyses count the same for a block, and sums by any key add
 * up to the same total. A weight of 0 means that the trace is no sample: then x remains x.
 */
#ifndef MEMTRACE_SAMPLE_H
#define MEMTRACE_SAMPLE_H

#include "memtrace/memtrace.h"

/* The key of the fact that has the mean number of bytes between samples. */
#define MT_INFO_SAMPLE_MEAN "sample_mean"

/* The weight of a block; mean: of mt_sample_mean, not 0. */
double mt_sample_weight(uint64_t mean, uint64_t size);

/* The weight of the block that an event makes or ends. */
static inline double mt_event_weight(const struct mt_event *e)
{
    return e->kind == MT_NEW || e->kind == MT_FREE ? e->weight : 0;
}

/* x multiplied by the weight of a block. */
static inline uint64_t mt_scaled(double weight, uint64_t handle, uint64_t x)
{
    if (weight == 0)
        return x;
    const double exact = weight * (double)x;
    if (exact >= 0x1p63)
        return x; /* no sample has such a block */
    const uint64_t whole = (uint64_t)exact;
    uint64_t mixed = (handle + 1) * 0x9e3779b97f4a7c15ULL;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ULL;
    return whole + (exact - (double)whole > (double)(mixed >> 11) * 0x1p-53);
}

/* What a block adds to the variance of a sum to which it adds x, scaled to `scaled`. */
static inline double mt_scaled_variance(uint64_t scaled, uint64_t x)
{
    return (double)scaled * ((double)scaled - (double)x);
}

#endif
