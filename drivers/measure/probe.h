/* probe.h - the largest block that can still be allocated, found without disturbing the run.
 *
 * Every trial happens in a forked child, so that the allocator under test never sees it. The last result is
 * tried first (this size: yes; one byte more: no; each in a child of its own, or both in one if it is what
 * the allocator believes). If it is not right any more, a child searches by halving, freeing what it got;
 * since that may change what it can get, its result is verified in the same way. An allocator for which that
 * fails (one that takes nothing back) is searched with a new child after each success. If there is no room at
 * all, the allocator may compact first.
 *
 * All of that is done by a process forked at the data point, so that the replay goes on meanwhile and a
 * second processor has work to do. Two may be under way, each in a *way* of its own that remembers the last
 * result and never looks at the other's: what is found does not depend on which is quicker.
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
    uint64_t largest;     /* bytes; 0 = not one byte */
    uint64_t nanoseconds; /* that allocating it took */
    bool crashed;         /* the allocator did not survive the trial */
};

struct probe_shared;

struct probe {
    const struct steve_driver *driver;
    uint64_t limit;              /* no block can be larger: the heap */
    uint64_t last;               /* result of the last search, where the next one starts */
    struct probe_shared *shared; /* memory shared with the searching process and its children */
    bool hinted;                 /* `last` is what the allocator believes */
    unsigned distrust;           /* times that a search with freeing was wrong */
    pid_t searcher;              /* the process that searches, 0 = none */
    volatile uint64_t *heartbeat;
};

/* One way. False: no memory. */
bool probe_open(struct probe *p, const struct steve_driver *driver, uint64_t limit,
                volatile uint64_t *heartbeat);
/* Begin to look for the largest block in the heap as it is now; nothing may be under way. `hint`: where to
 * look first, 0 = at the last result. */
void probe_begin(struct probe *p, uint64_t hint);
/* Wait for what was begun. */
struct probe_result probe_end(struct probe *p);

#endif
