/* fragmentation.c - computes the fragmentation of a run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/fragmentation.h"

enum { UNIT = 16 };

void fragmentation_add(struct fragmentation *f, uint64_t allocated, uint64_t live, uint64_t used)
{
    if (allocated && live) {
        f->weighted += (double)allocated * (double)used / (double)live;
        f->weight += (double)allocated;
    }
    if (live > f->most_live) {
        f->most_live = live;
        f->used_at_most_live = used;
    }
    if (used > f->most_used && live) {
        f->most_used = used;
        f->live_at_most_used = live;
    }
}

static double over(double used, double live)
{
    return live > 0 ? (used / live - 1) * 100 : 0;
}

double fragmentation_measure(const struct fragmentation *f, int which)
{
    switch (which) {
    case 1:
        return over(f->weighted, f->weight);
    case 2:
        return over((double)f->used_at_most_live, (double)f->most_live);
    case 3:
        return over((double)f->most_used, (double)f->live_at_most_used);
    default:
        return over((double)f->most_used, (double)f->most_live);
    }
}

uint64_t fragmentation_robson(uint64_t peak, uint64_t largest)
{
    uint64_t m = (peak + UNIT - 1) / UNIT, n = (largest + UNIT - 1) / UNIT;
    if (n == 0)
        return 0;
    uint64_t log = 63u - (uint64_t)__builtin_clzll(n);
    return (m + m * log / 2 - n + 1) * UNIT;
}
