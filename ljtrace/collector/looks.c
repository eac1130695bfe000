/* looks.c - when the collector looks at the pages of the program (--pages), and what it knows of them then; see looks.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/looks.h"

void looks_forget(struct collector *c)
{
    if (c->look.reason)
        feed_fill_regions(c->feed, NULL);
    regions_free(&c->look.regions);
    c->look = (struct open_look){0};
}

/* Set the time of the trace. Returns false if the recording has not begun. */
static bool time_of_look(const struct collector *c, uint64_t *time)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *time = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    const uint64_t start = c->ring->clock, at = *time;
    *time -= start;
    return start && start <= at;
}

void looks_begin(struct collector *c, const char *reason)
{
    uint64_t time;
    if (!time_of_look(c, &time))
        return;
    c->look = (struct open_look){reason, time, c->slab_count, regions_copy(feed_regions(c->feed))};
    feed_fill_regions(c->feed, &c->look.regions);
    pages_begin(c->pages);
    pages_read_rest(c->pages);
}

void looks_end(struct collector *c)
{
    struct open_look *l = &c->look;
    if (!l->reason)
        return;
    pages_write(c->pages, c->writer, &l->regions, c->ring, l->time, l->reason, "");
    looks_forget(c);
}

void looks_release(struct collector *c)
{
    const struct feed_pages asked = feed_take_pages(c->feed);
    uint64_t time;
    if (c->look.reason && (asked.asked || --c->look.slabs == 0))
        looks_end(c);
    const bool looks = c->pages && asked.asked && !asked.end && time_of_look(c, &time);
    if (c->pages && asked.asked && asked.end && time_of_look(c, &time))
        pages_take(c->pages, c->writer, feed_regions(c->feed), c->ring, time, "end", "");
    if (looks)
        pages_begin(c->pages);
    channel_release(&c->channel);
    if (!looks)
        return;
    pages_read_rest(c->pages);
    pages_write(c->pages, c->writer, feed_regions(c->feed), c->ring, time, "mark", asked.name);
}

bool looks_may_begin(const struct collector *c)
{
    return c->pages && !c->look.reason && !feed_awaits_existing(c->feed);
}

const char *looks_due(struct collector *c)
{
    const char *reason = looks_may_begin(c) ? pages_due(c->pages) : NULL;
    if (c->look.reason)
        return NULL;
    const uint32_t looks = __atomic_load_n(&c->ring->looks, __ATOMIC_ACQUIRE);
    if (c->pages && looks != c->looks && !c->forked)
        reason = "request";
    c->looks = looks;
    return reason;
}
