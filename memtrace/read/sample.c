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

double mt_sample_weight(uint64_t mean, uint64_t size)
{
    return size ? 1 / probability((double)size / (double)mean) : 1; /* 0 bytes are never recorded */
}
