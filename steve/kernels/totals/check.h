/* check.h - the invariants of a trace, event by event.
 *
 * What a trace promises (memtrace/memtrace.h) is verified against a model of its own: live blocks do not
 * overlap, handles count 0, 1, 2... in order of the News, a slot holds one block at a time, every Free and
 * Resize names the block as it is, every access begins inside the block it names, time does not go back, ids
 * are defined. An access that begins inside and ends beyond its block is an error of the program, and counted
 * separately. Damage of the file itself is found by the reader.
 *
 * All events change the model, but only breaches by *shown* events are reported. With a filter, these are the events of
 * chosen blocks, or those between two marks (steve/kernels/base/walk.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_CHECK_H
#define STEVE_KERNELS_TOTALS_CHECK_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/intervals.h"

enum check_rule {
    CHECK_OVERLAP, /* a block overlaps a live block */
    CHECK_HANDLE,  /* a New's handle is not the next number */
    CHECK_SLOT,    /* a New takes the slot of a live block */
    CHECK_BLOCK,   /* an event names a block that is not live in its slot */
    CHECK_PLACE,   /* a Free or Resize gives another address or size than the block has */
    CHECK_INSIDE,  /* an access begins outside its block, or its offset is wrong */
    CHECK_TIME,    /* time goes back */
    CHECK_ID,      /* a stack, site or heap id is not defined */
    CHECK_KIND,    /* an unknown kind of event */
    CHECK_RULES
};

struct check_block {
    uint64_t handle, addr, size;
    /* As of mt_survivors, counted from the first event that was fed; CHECK_BEFORE if the block was live before. */
    uint64_t ordinal;
    bool live, shown; /* shown: by its New */
};
#define CHECK_BEFORE UINT64_MAX

struct check_finding {
    uint64_t count;
    uint64_t event;        /* ordinal of the first event that breaks the rule, from where any is shown */
    struct mt_event first; /* that event */
};

/* How many definitions there are of each sort. */
struct check_ids {
    uint32_t stacks, sites, heaps;
};

struct check {
    struct check_finding findings[CHECK_RULES];
    struct check_finding crossing;
    uint64_t events[MT_KINDS]; /* shown */
    uint64_t n_events, n_shown, next_handle;
    uint64_t ordinals;         /* News and Resizes so far */
    uint64_t time, first_time; /* of the last event, of the first */
    uint64_t live;             /* shown */
    bool began, shows;
    struct check_block *blocks; /* by slot */
    size_t room;
    struct intervals ranges;
};

void check_init(struct check *c);
/* In a part of a trace, before anything is fed: a block lives where it begins; shown: its events are. False
 * when out of memory. */
bool check_enter(struct check *c, const struct mt_live_block *live, bool shown);
/* False when out of memory. `ids`: what the reader has defined so far. `shown`: of walk_filter(), the events
 * themselves, or NULL if none of them is shown, nor counted. */
bool check_feed(struct check *c, struct check_ids ids, const struct mt_event *events,
                const struct mt_event *shown, size_t n);
void check_free(struct check *c);

#endif
