/* decode.c - the EVENTS chunk being read: tokens and accesses; see decode.h and predict.h.
 *
 * Runs of accesses that were guessed right, which are most of a trace, go through a loop of their own
 * without a look at the streams. Decoding stops and goes on at any event, so that the caller's array can
 * stay small enough for the cache.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "decode_rare.h"

#include <stdlib.h>
#include <string.h>

bool decoder_init(struct decoder *d, const struct defs *defs)
{
    *d = (struct decoder){.defs = defs, .state_whole = true};
    return true;
}

void decoder_destroy(struct decoder *d)
{
    free(d->sites);
    free(d->blocks);
}

/* Take over the sites defined since the last chunk; their number is small against the events. */
static bool take_sites(struct decoder *d)
{
    uint32_t count = d->defs->sites.count;
    if (count > d->site_capacity) {
        size_t capacity = (size_t)count * 2;
        struct site_state *sites = aligned_alloc(64, capacity * sizeof *sites);
        if (!sites)
            return false;
        if (d->site_count)
            memcpy(sites, d->sites, d->site_count * sizeof *sites);
        free(d->sites);
        d->sites = sites;
        d->site_capacity = (uint32_t)capacity;
    }
    for (; d->site_count < count; d->site_count++) {
        const struct mt_site *s = table_at(&d->defs->sites, d->site_count);
        d->sites[d->site_count] = (struct site_state){.size = s->size, .kind = s->kind};
    }
    return true;
}

bool decoder_start(struct decoder *d, const struct chunk_header *h, const uint8_t *raw, const uint32_t *sizes)
{
    if (!take_sites(d))
        return false;
    for (unsigned i = 0; i < EVENT_STREAMS; i++) {
        d->streams[i] = (struct cursor){.p = raw, .end = raw + sizes[i]};
        raw += sizes[i];
    }
    d->streams[STREAM_RARE].time = h->instructions;
    d->epoch++;
    d->prev_site = d->prev_slot = 0;
    site_reset(&d->sites[0], d->epoch, 0);
    d->run = 0;
    d->misses = -1;
    d->left = h->events;
    d->thread = 1;
    d->finished = false;
    d->wrong = NULL;
    return true;
}

void decoder_forget(struct decoder *d)
{
    for (uint32_t i = 0; i < d->block_count; i++)
        d->blocks[i] = (struct live_block){.heap = NO_HEAP};
    d->live = 0;
}

static void read_token(struct decoder *d)
{
    struct cursor *c = &d->streams[STREAM_TOKENS];
    uint8_t token = cursor_byte(c);
    d->misses = token & 7;
    d->run = token >> 3;
    if (d->run == RUN_LONG)
        d->run += cursor_uvarint(c);
    if (c->bad)
        d->wrong = "token stream is cut off";
    else if (d->run + (d->misses != 0) > d->left)
        d->wrong = "more accesses than the chunk has events";
}

/* What the events of a run have in common, and what finding them needs: kept in local variables, because
 * the compiler cannot know that writing events does not change them. */
struct run_state {
    struct site_state *sites;
    const struct live_block *blocks;
    uint64_t time;
    uint32_t block_count;
    uint16_t thread;
};

static inline struct run_state run_state(const struct decoder *d)
{
    return (struct run_state){d->sites, d->blocks, d->streams[STREAM_RARE].time, d->block_count, d->thread};
}

static inline void set_access(const struct run_state *run, struct mt_event *ev, const struct site_state *s,
                              uint32_t site, uint32_t slot, uint64_t offset)
{
    const struct live_block *b = &run->blocks[slot];
    *ev = (struct mt_event){.addr = b->base + offset,
                            .size = s->size,
                            .handle = b->handle,
                            .time = run->time,
                            .offset = offset,
                            .ref = site,
                            .thread = run->thread,
                            .kind = s->kind,
                            .beyond = s->size > b->size - offset,
                            .heap = b->heap,
                            .slot = slot};
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

/* n accesses guessed right; how many events that made, n unless some were lost or d->wrong is set. */
static size_t decode_run(struct decoder *d, struct mt_event *ev, size_t n)
{
    const struct run_state run = run_state(d);
    size_t made = 0;
    uint32_t site = d->prev_site, slot = d->prev_slot;
    for (size_t i = 0; i < n; i++) {
        site = run.sites[site].next[0];
        if (site == NO_SITE) {
            d->wrong = "a site is guessed that has not been seen";
            return made;
        }
        struct site_state *s = &run.sites[site];
        uint32_t prev_slot = slot;
        uint64_t offset = guess_offset(s);
        slot = guess_slot(s, prev_slot);
        learn_slot_hit(s, prev_slot, slot);
        learn_offset_hit(s, offset);
        if (s->kind && is_live(&run, slot, offset))
            set_access(&run, &ev[made++], s, site, slot, offset);
        else if (!skip_lost_access(d))
            return made;
    }
    d->prev_site = site;
    d->prev_slot = slot;
    d->run -= n;
    d->left -= (uint32_t)n;
    return made;
}

/* The site of an access whose guess was wrong. */
static uint32_t decode_site(struct decoder *d)
{
    struct site_state *prev = &d->sites[d->prev_site];
    uint64_t v = cursor_uvarint(&d->streams[STREAM_SITES]);
    uint32_t site = v == 0 ? prev->next[1] : v < d->site_count ? (uint32_t)v : NO_SITE;
    if (site == NO_SITE)
        return NO_SITE;
    if (d->sites[site].epoch != d->epoch)
        site_reset(&d->sites[site], d->epoch, d->prev_slot);
    learn_site(prev, site);
    return site;
}

static uint32_t decode_slot(struct decoder *d, const struct site_state *s)
{
    uint64_t v = cursor_uvarint(&d->streams[STREAM_SLOTS]);
    if (v == 0)
        return other_slot(s, d->prev_slot);
    return v <= MAX_LIVE_BLOCKS ? (uint32_t)v - 1 : UINT32_MAX;
}

static bool any_bad(const struct decoder *d)
{
    return d->streams[STREAM_SITES].bad || d->streams[STREAM_SLOTS].bad || d->streams[STREAM_OFFSETS].bad;
}

/* The access after a run; how many events it made. */
static size_t decode_miss(struct decoder *d, struct mt_event *ev)
{
    uint32_t site = d->misses & MISS_SITE ? decode_site(d) : d->sites[d->prev_site].next[0];
    if (site == NO_SITE) {
        d->wrong = "an access names a site that is not defined";
        return 0;
    }
    struct site_state *s = &d->sites[site];
    uint32_t slot = d->misses & MISS_SLOT ? decode_slot(d, s) : guess_slot(s, d->prev_slot);
    uint64_t offset = d->misses & MISS_OFFSET ? cursor_uvarint(&d->streams[STREAM_OFFSETS]) : guess_offset(s);
    if (any_bad(d)) {
        d->wrong = "access streams are cut off";
        return 0;
    }
    learn_slot(s, d->prev_slot, slot);
    learn_offset(s, offset);
    d->prev_site = site;
    d->prev_slot = slot;
    d->misses = -1;
    d->left--;
    const struct run_state run = run_state(d);
    bool live = s->kind && is_live(&run, slot, offset);
    if (live)
        set_access(&run, ev, s, site, slot, offset);
    else
        skip_lost_access(d);
    return live;
}

/* The end of a chunk: everything must be used up. */
static void check_end(struct decoder *d)
{
    bool whole = d->left == 0;
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        whole &= d->streams[i].p == d->streams[i].end;
    if (!whole)
        d->wrong = "chunk ends before its events do";
    d->finished = true;
}

/* The rare record after a run; how many events it made. */
static size_t decode_rare_event(struct decoder *d, struct mt_event *ev)
{
    enum rare_result result = decode_rare(d, ev);
    d->misses = -1;
    if (result == RARE_STOP && !d->wrong)
        check_end(d);
    if (result != RARE_EVENT)
        return 0;
    if (d->left == 0) {
        d->wrong = "more events than the chunk says";
        return 0;
    }
    d->left--;
    return !ev->freed || d->want_freed;
}

size_t decoder_events(struct decoder *d, struct mt_event *events, size_t n)
{
    size_t made = 0;
    while (made < n && !d->finished && !d->wrong) {
        if (d->misses < 0)
            read_token(d);
        if (d->wrong)
            break;
        size_t run = d->run < n - made ? d->run : n - made;
        if (run)
            made += decode_run(d, events + made, run);
        if (d->wrong || d->run || made == n)
            continue;
        if (d->misses)
            made += decode_miss(d, events + made);
        else
            made += decode_rare_event(d, events + made);
    }
    return made;
}
