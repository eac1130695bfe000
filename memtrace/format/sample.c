/* sample.c - the weight of a block of a sample; see memtrace/sample.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/sample.h"

/* 1 - exp(-x) for x > 0: by the series for a small part of x, then doubled by exp(2x) - 1 = (exp(x) - 1) (exp(x) + 1).
 * Accurate to a few units of the last place; programs with the library need no libm for it. */
static double probability(double x)
{
    unsigned halvings = 0;
    if (x > 40)
        return 1;
    for (; x > 0x1p-7; x /= 2)
        halvings++;
    double t = -x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
    while (halvings--)
        t *= t + 2;
    return -t;
}

/* The random number of a block. Its high bits are the better ones. */
static uint64_t draw(const struct mt_sample *sample, uint64_t number)
{
    uint64_t bits = (number + 1) * 0x9e3779b97f4a7c15ULL ^ sample->seed;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9ULL;
    return (bits ^ bits >> 27) * 0x94d049bb133111ebULL;
}

bool mt_sample_chooses(const struct mt_sample *sample, uint64_t number)
{
    const uint64_t drawn = draw(sample, number);
    return (drawn ^ drawn >> 31) <= UINT64_MAX / sample->every;
}

/* In a sample by bytes, blocks of 0 bytes are never recorded. */
double mt_sample_weight(const struct mt_sample *sample, uint64_t handle, uint64_t size)
{
    if (sample->every)
        return (double)sample->every;
    double weight = size ? 1 / probability((double)size / (double)sample->mean) : 1;
    uint64_t bits;
    memcpy(&bits, &weight, sizeof bits);
    bits = (bits & ~(uint64_t)MT_WEIGHT_DICE) | draw(sample, handle) >> 44;
    memcpy(&weight, &bits, sizeof weight);
    return weight;
}
