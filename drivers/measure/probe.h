/* probe.h - searches for the largest block that can still be allocated, without changing the run.
 *
 * Every trial is made in a forked child, so that it does not change the allocator under test. The last result is
 * tried first: this size must succeed, and one byte more must fail. Each trial has its own child, or both have the
 * same if the allocator itself reported the size. If the last result is no longer right, a child searches by
 * bisection and frees each block. Freeing may change what can be allocated, so the result is verified in the same
 * way. If verification fails repeatedly (the allocator may never reuse memory), the search uses a new child after
 * each success. If nothing can be allocated, the allocator may compact first.
 *
 * At most data points the last result is still right. The replay itself forks the children that find this out, and
 * waits for them: a process between them would cost as much as a child. They run at the same time if the last search, too,
 * found what was known. If the last result is no longer right, a process forked at the data point searches, so that the
 * replay continues meanwhile on another processor. Two searches may run at the same time. Each has a *way* of its own,
 * which keeps its last result, so the results do not depend on which search is faster.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_MEASURE_PROBE_H
#define DRIVERS_MEASURE_PROBE_H

#include "drivers/sdk/driver.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROBE_WAYS = 2 };

struct probe_result {
    uint64_t largest;     /* bytes; 0 = not even one byte */
    uint64_t nanoseconds; /* time that allocating it took */
    bool crashed;         /* the allocator crashed in the trial */
};

struct probe_shared;

struct probe {
    const struct steve_driver *driver;
    uint64_t limit;              /* no block can be larger: the size of the heap */
    uint64_t last;               /* result of the last search, with which the next one begins */
    struct probe_shared *shared; /* memory shared with the searching process and its children */
    bool hinted;                 /* `last` is what the allocator reported */
    bool steady;                 /* the last search found the same as the one before */
    unsigned distrust;           /* number of times that a search with freeing was wrong */
    pid_t searcher;              /* the process that searches, 0 = none; -1 = it could not be started */
    volatile uint64_t *heartbeat;
};

/* Initialize a way. False when out of memory. */
bool probe_open(struct probe *p, const struct steve_driver *driver, uint64_t limit,
                volatile uint64_t *heartbeat);
/* Try the last result, and begin to search for the largest block in the heap as it is now if that is no longer right; no
 * search may be running in this way. `hint` is the size to try first, 0 = the last result. */
void probe_begin(struct probe *p, uint64_t hint);
/* Wait for the search, if there is one. */
struct probe_result probe_end(struct probe *p);

#endif
