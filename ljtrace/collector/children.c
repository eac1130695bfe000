/* children.c - how many forked children of the program are recorded; see children.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/children.h"

#include <time.h>

/* Milliseconds. A child that is recorded knows it within a few, if its parent has no gigabytes of blocks. */
enum { LONGEST = 10000, PAUSE = 1 };

static uint64_t load(const uint32_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/* How many of the announced children have not counted themselves. */
static uint32_t missing(const struct collector *c)
{
    const uint64_t counted =
        load(&c->ring->recorded) + load(&c->ring->unrecorded) + load(&c->ring->failed_forks);
    return c->recording.native && counted < c->children ? c->children - (uint32_t)counted : 0;
}

void children_await(const struct collector *c)
{
    const struct timespec pause = {0, PAUSE * 1000000};
    for (int waited = 0; waited < LONGEST && missing(c); waited += PAUSE)
        nanosleep(&pause, NULL);
}

uint32_t children_recorded(const struct collector *c)
{
    return c->recording.native ? c->ring->recorded : c->children;
}

uint32_t children_unrecorded(const struct collector *c)
{
    return c->ring->unrecorded + c->ring->unannounced + missing(c);
}
