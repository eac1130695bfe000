/* latency.c - a histogram of operation times.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/latency.h"

static unsigned bucket_of(uint64_t ns)
{
    if (ns < 2 * LATENCY_STEPS)
        return (unsigned)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - 4u;
    return (shift + 1) * LATENCY_STEPS + (unsigned)(ns >> shift) - LATENCY_STEPS;
}

/* The largest time in a bucket. */
static uint64_t top_of(unsigned bucket)
{
    if (bucket < 2 * LATENCY_STEPS)
        return bucket;
    unsigned shift = bucket / LATENCY_STEPS - 1;
    return ((uint64_t)(bucket % LATENCY_STEPS + LATENCY_STEPS + 1) << shift) - 1;
}

void latency_add(struct latency *t, uint64_t ns)
{
    t->count++;
    t->sum += ns;
    t->buckets[bucket_of(ns)]++;
    if (ns > t->most)
        t->most = ns;
}

void latency_join(struct latency *t, const struct latency *more)
{
    t->count += more->count;
    t->sum += more->sum;
    t->preempted += more->preempted;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
        t->buckets[i] += more->buckets[i];
    if (more->most > t->most)
        t->most = more->most;
}

uint64_t latency_at(const struct latency *t, unsigned permille)
{
    uint64_t below = 0, wanted = (t->count * permille + 999) / 1000;
    if (!t->count)
        return 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        below += t->buckets[i];
        if (below >= wanted && below)
            return top_of(i) < t->most ? top_of(i) : t->most;
    }
    return t->most;
}
