/* decode_v1.c - accesses as format version 1 codes them: one by one; see predict_v1.h and decode_v1.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "decode_v1.h"

#include <stdlib.h>
#include <string.h>

/* Take over the sites defined since the last chunk; their number is small against the events. */
static bool take_sites(struct decoder *d)
{
    uint32_t count = d->defs->sites.count;
    if (count > d->v1.site_capacity) {
        size_t capacity = (size_t)count * 2;
        struct site_state *sites = aligned_alloc(64, capacity * sizeof *sites);
        if (!sites)
            return false;
        if (d->v1.site_count)
            memcpy(sites, d->v1.sites, d->v1.site_count * sizeof *sites);
        free(d->v1.sites);
        d->v1.sites = sites;
        d->v1.site_capacity = (uint32_t)capacity;
    }
    for (; d->v1.site_count < count; d->v1.site_count++) {
        const struct mt_site *s = table_at(&d->defs->sites, d->v1.site_count);
        d->v1.sites[d->v1.site_count] = (struct site_state){.size = s->size, .kind = s->kind};
    }
    return true;
}

bool v1_start(struct decoder *d)
{
    if (!take_sites(d))
        return false;
    d->v1.prev_site = d->v1.prev_slot = 0;
    site_reset(&d->v1.sites[0], d->epoch, 0);
    return true;
}

void v1_free(struct decoder *d)
{
    free(d->v1.sites);
}

/* Is there such a block, and does it have this offset? */
static inline bool is_live(const struct run_state *run, uint32_t slot, uint64_t offset)
{
    return slot < run->block_count && offset < run->blocks[slot].size;
}

/* An access that cannot be: in a salvaged trace a damaged chunk took its block or site along. */
static bool skip_lost_access(struct decoder *d)
{
    d->lost++;
    if (!d->salvage)
        d->wrong = "an access lies in no live block";
    return d->salvage;
}

size_t v1_run(struct decoder *d, struct mt_event *ev, size_t n)
{
    const struct run_state run = run_state(d);
    struct site_state *sites = d->v1.sites;
    size_t made = 0;
    uint32_t site = d->v1.prev_site, slot = d->v1.prev_slot;
    for (size_t i = 0; i < n; i++) {
        site = sites[site].next[0];
        if (site == NO_SITE) {
            d->wrong = "a site is guessed that has not been seen";
            return made;
        }
        struct site_state *s = &sites[site];
        uint32_t prev_slot = slot;
        uint64_t offset = guess_offset(s);
        slot = guess_slot(s, prev_slot);
        learn_slot_hit(s, prev_slot, slot);
        learn_offset_hit(s, offset);
        if (s->kind && is_live(&run, slot, offset))
            set_access(&run, &ev[made++], site, s->size, s->kind, slot, offset);
        else if (!skip_lost_access(d))
            return made;
    }
    d->v1.prev_site = site;
    d->v1.prev_slot = slot;
    d->run -= n;
    d->left -= (uint32_t)n;
    return made;
}

/* The site of an access whose guess was wrong. */
static uint32_t decode_site(struct decoder *d)
{
    struct site_state *prev = &d->v1.sites[d->v1.prev_site];
    uint64_t v = cursor_uvarint(&d->streams[STREAM_SITES]);
    uint32_t site = v == 0 ? prev->next[1] : v < d->v1.site_count ? (uint32_t)v : NO_SITE;
    if (site == NO_SITE)
        return NO_SITE;
    if (d->v1.sites[site].epoch != d->epoch)
        site_reset(&d->v1.sites[site], d->epoch, d->v1.prev_slot);
    learn_site(prev, site);
    return site;
}

static uint32_t decode_slot(struct decoder *d, const struct site_state *s)
{
    uint64_t v = cursor_uvarint(&d->streams[STREAM_SLOTS]);
    if (v == 0)
        return other_slot(s, d->v1.prev_slot);
    return v <= MAX_LIVE_BLOCKS ? (uint32_t)v - 1 : UINT32_MAX;
}

static bool any_bad(const struct decoder *d)
{
    return d->streams[STREAM_SITES].bad || d->streams[STREAM_SLOTS].bad || d->streams[STREAM_OFFSETS].bad;
}

size_t v1_miss(struct decoder *d, struct mt_event *ev)
{
    uint32_t site = d->misses & MISS_SITE ? decode_site(d) : d->v1.sites[d->v1.prev_site].next[0];
    if (site == NO_SITE) {
        d->wrong = "an access names a site that is not defined";
        return 0;
    }
    struct site_state *s = &d->v1.sites[site];
    uint32_t slot = d->misses & MISS_SLOT ? decode_slot(d, s) : guess_slot(s, d->v1.prev_slot);
    uint64_t offset = d->misses & MISS_OFFSET ? cursor_uvarint(&d->streams[STREAM_OFFSETS]) : guess_offset(s);
    if (any_bad(d)) {
        d->wrong = "access streams are cut off";
        return 0;
    }
    learn_slot(s, d->v1.prev_slot, slot);
    learn_offset(s, offset);
    d->v1.prev_site = site;
    d->v1.prev_slot = slot;
    d->misses = -1;
    d->left--;
    const struct run_state run = run_state(d);
    bool live = s->kind && is_live(&run, slot, offset);
    if (live)
        set_access(&run, ev, site, s->size, s->kind, slot, offset);
    else
        skip_lost_access(d);
    return live;
}
