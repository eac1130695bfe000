/* probe.h - the largest block that can still be allocated, found without disturbing the run.
 *
 * Every trial happens in a forked child, so that the allocator under test never sees it. The last result is
 * tried first (this size: yes; one byte more: no; each in a child of its own). If it is not right any more,
 * a child searches by halving, freeing what it got; since that may change what it can get, its result
 * is verified in the same way. An allocator for which that fails (one that takes nothing back) is searched
 * with a new child after each success. If there is no room at all, the allocator may compact first.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PROBE_H
#define DRIVERS_PROBE_H

#include "drivers/driver.h"

#include <stdint.h>

struct probe_shared;

struct probe {
    const struct steve_driver *driver;
    uint64_t limit;              /* no block can be larger: the heap */
    uint64_t last;               /* result of the last probe, where the next one starts */
    struct probe_shared *shared; /* results of the children, memory shared with them */
    unsigned distrust;           /* times that a search with freeing was wrong */
    volatile uint64_t *heartbeat;
};

struct probe_result {
    uint64_t largest;     /* bytes; 0 = not one byte */
    uint64_t nanoseconds; /* that allocating it took */
    bool crashed;         /* the allocator did not survive the trial */
};

bool probe_open(struct probe *p, const struct steve_driver *driver, uint64_t limit,
                volatile uint64_t *heartbeat);
/* `hint`: where to look first, 0 = at the last result. */
struct probe_result probe_largest(struct probe *p, uint64_t hint);

#endif
