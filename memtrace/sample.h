/* sample.h - how many blocks a recorded one stands for, in a trace that is a sample of the blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * There are two kinds of samples. In a sample by bytes (ljtrace run --sample), a block of `size` bytes was recorded with
 * the probability p = 1 - exp(-size/mean). In a sample by blocks (valgrind --tool=ljtrace --sample-blocks=1/N), each block
 * was recorded with the probability p = 1/N. In both, blocks were chosen independently of each other. The weight of a block
 * is 1/p. A sum of x over all blocks is estimated by the sum of x/p over the recorded ones, and this has no bias
 * (the estimator of Horvitz and Thompson). The variance of the estimate is the sum of x^2 (1-p)/p over all blocks; it is
 * estimated by the sum of x^2 (1-p)/p^2 over the recorded ones. The standard error is its square root.
 *
 * Analyses count in whole numbers. In a sample by blocks, x/p is whole. Otherwise it is rounded up with a probability
 * equal to its fractional part, so the rounding adds no bias either. The random number for it is derived from the handle
 * of the block and the seed of the sample, and is stored in the low 20 bits of the weight. So all analyses count the same
 * for a block, and sums by any key add up to the same total. A weight of 0 means that the trace is no sample: then x
 * remains x.
 */
#ifndef MEMTRACE_SAMPLE_H
#define MEMTRACE_SAMPLE_H

#include "memtrace/memtrace.h"

#include <string.h>

/* The keys of the facts. */
#define MT_INFO_SAMPLE_MEAN "sample_mean"
#define MT_INFO_SAMPLE_EVERY "sample_every"
#define MT_INFO_SAMPLE_SEED "sample_seed"

static inline bool mt_is_sample(const struct mt_sample *sample)
{
    return sample->mean || sample->every;
}

/* The weight of a block of a sample. */
double mt_sample_weight(const struct mt_sample *sample, uint64_t handle, uint64_t size);

/* Is the block with this number among all blocks, in the order of their News, in the sample by blocks? Addresses do not
 * matter: they are reused, so that the blocks at one address would all be chosen or all be left out. */
bool mt_sample_chooses(const struct mt_sample *sample, uint64_t number);

/* The weight of the block that an event makes or ends. */
static inline double mt_event_weight(const struct mt_event *e)
{
    return e->kind == MT_NEW || e->kind == MT_FREE ? e->weight : 0;
}

/* The bits of a weight that decide how numbers are rounded. */
#define MT_WEIGHT_DICE ((1u << 20) - 1)

/* x multiplied by the weight of a block. */
static inline uint64_t mt_scaled(double weight, uint64_t x)
{
    if (weight == 0)
        return x;
    const double exact = weight * (double)x;
    if (exact >= 0x1p63)
        return x; /* no sample has such a block */
    const uint64_t whole = (uint64_t)exact;
    uint64_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return whole + (exact - (double)whole > (double)(bits & MT_WEIGHT_DICE) / (MT_WEIGHT_DICE + 1));
}

/* What a block adds to the variance of a sum to which it adds x, scaled to `scaled`. */
static inline double mt_scaled_variance(uint64_t scaled, uint64_t x)
{
    return (double)scaled * ((double)scaled - (double)x);
}

#endif
