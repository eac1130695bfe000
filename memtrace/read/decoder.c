/* decoder.c - decodes EVENTS chunks: tokens and segments.
 *
 * Runs of segments that are as predicted, which are most of a trace, are decoded in a separate loop without reading
 * the streams. Decoding can stop and continue at any segment, so that the caller's array can be small enough for the
 * cache.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/read/decode_access.h"
#include "memtrace/read/decode_miss.h"
#include "memtrace/read/decode_batch.h"
#include "memtrace/read/decode_records.h"

#include <stdlib.h>
#include <string.h>

bool decoder_init(struct decoder *d, const struct defs *defs)
{
    *d = (struct decoder){.defs = defs, .checkpoint_whole = true};
    return codebook_init(&d->book);
}

void decoder_destroy(struct decoder *d)
{
    codebook_free(&d->book);
    free(d->blocks);
}

static bool take_sites(struct decoder *d)
{
    for (uint32_t i = d->book.site_count; i < d->defs->sites.count; i++) {
        const struct mt_site *s = table_at(&d->defs->sites, i);
        if (!codebook_site(&d->book, s->size, s->kind))
            return false;
    }
    return true;
}

/* Number of accesses of a defined segment. */
static void get_accesses(const struct defs *defs, const struct defined_segment *s, struct mt_access *accesses)
{
    for (uint32_t i = 0; i < s->count; i++)
        accesses[i] = *(const struct mt_access *)table_at(&defs->accesses, s->first + i);
}

/* Copy the definitions that were added since the last chunk. This takes little time compared to the events. */
static bool take_definitions(struct decoder *d)
{
    struct mt_access accesses[MT_SEGMENT_MOST];
    bool ok = take_sites(d);
    for (uint32_t i = d->book.segment_count; ok && i < d->defs->segments.count; i++) {
        const struct defined_segment *s = table_at(&d->defs->segments, i);
        get_accesses(d->defs, s, accesses);
        ok = codebook_segment(&d->book, &(struct mt_segment){accesses, s->count, s->words, 0});
    }
    return ok;
}

static bool start_accesses(struct decoder *d)
{
    if (!take_definitions(d))
        return false;
    d->prev_line = NO_LINE;
    d->recent = (struct recent){0};
    segment_reset(&d->book.lines[NO_LINE], d->epoch);
    return true;
}

bool decoder_start(struct decoder *d, const struct chunk_header *h, const uint8_t *raw, const uint32_t *sizes)
{
    for (unsigned i = 0; i < EVENT_STREAMS; i++) {
        d->streams[i] = (struct cursor){.p = raw, .end = raw + sizes[i]};
        raw += sizes[i];
    }
    d->streams[STREAM_RARE].time = h->instructions;
    d->epoch++;
    d->run = 0;
    d->misses = -1;
    d->left = h->events;
    d->thread = 1;
    d->finished = false;
    d->wrong = NULL;
    return start_accesses(d);
}

bool decoder_is_container(const struct decoder *d, uint64_t handle)
{
    size_t from = 0, to = d->n_containers;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (d->containers[middle] < handle)
            from = middle + 1;
        else
            to = middle;
    }
    return from < d->n_containers && d->containers[from] == handle;
}

void decoder_forget(struct decoder *d)
{
    for (uint32_t i = 0; i < d->block_count; i++)
        d->blocks[i] = (struct live_block){.heap = NO_HEAP};
    d->live = 0;
}

void decoder_lose(struct decoder *d, uint64_t blocks)
{
    uint64_t slots = d->block_count + (blocks < MAX_CHUNK_EVENTS ? blocks : MAX_CHUNK_EVENTS);
    decoder_forget(d);
    /* without memory for it, an access to one of these blocks is an error and ends the chunk */
    if (slots > 0 && slots <= MAX_LIVE_BLOCKS)
        decoder_reserve_slot(d, slots - 1);
}

/* Count an access whose block or site was lost with a damaged chunk. */
static void lose_access(struct decoder *d)
{
    if (!d->salvage || d->left == 0)
        return;
    d->lost++;
    d->left--;
}

/* Make the events of a segment and return their number. An access outside the block of its word was not to the
 * heap, or, in a salvaged trace, its block or site was lost. */
static size_t make_events(struct decoder *d, const struct run_state *run, struct mt_event *ev, uint32_t line,
                          const struct mt_place *places)
{
    const struct word_state *first = &d->book.lines[line];
    const uint32_t name = d->book.names[line];
    const struct mt_access alone = {name >> 1, 0, 0}, *a = &alone;
    uint32_t count = 1;
    size_t made = 0;
    if (!(name & 1)) {
        const struct coded_segment *s = &d->book.segments[name >> 1];
        a = &d->book.accesses[s->first];
        count = s->count;
    }
    for (const struct mt_access *end = a + count; a < end; a++) {
        const struct mt_place *p = &places[a->word];
        if (p->slot == MT_NO_SLOT)
            continue;
        const struct live_block *b = &run->blocks[p->slot];
        const struct coded_site *site = &d->book.sites[a->site];
        uint64_t offset = p->addr + (uint64_t)((int64_t)a->distance - first[a->word].lowest) - b->base;
        if (offset < b->size && site->kind)
            set_access(run, &ev[made++], a->site, site->size, site->kind, p->slot, offset);
        else if (b->heap == NO_HEAP || !site->kind)
            lose_access(d);
    }
    return made;
}

/* Count the events of a segment; a chunk with more events than its header says is an error. */
static size_t count_events(struct decoder *d, size_t made)
{
    if (made > d->left) {
        d->wrong = "more accesses than the chunk has events";
        return 0;
    }
    d->left -= (uint32_t)made;
    return made;
}

/* Decode the place of a word that is as predicted; false if it is invalid. */
static inline bool take_word(struct decoder *d, const struct run_state *run, struct word_state *s,
                             struct mt_place *p)
{
    if (s->mode & MODE_FOREIGN) {
        p->slot = MT_NO_SLOT;
        return true;
    }
    struct guess g = guess_word(s, &d->recent);
    if (g.slot >= run->block_count)
        return false;
    *p = (struct mt_place){g.addr, g.slot};
    learn_word(s, &d->recent, g.addr, g.slot);
    return true;
}

size_t decoder_segment_events(struct decoder *d, struct mt_event *ev, uint32_t line,
                              const struct mt_place *places)
{
    const struct run_state run = run_state(d);
    return count_events(d, make_events(d, &run, ev, line, places));
}

/* Is there room for the largest possible segment? */
static inline bool has_room(const struct decoder *d, size_t room)
{
    return room >= MT_SEGMENT_MOST && (!d->batch || batch_has_room(d->batch));
}

/* Decode a run of segments that are as predicted, as long as there is room, and return the number of their events. */
static size_t decode_run(struct decoder *d, struct mt_event *ev, size_t room)
{
    const struct run_state run = run_state(d);
    struct word_state *lines = d->book.lines;
    struct mt_place places[MT_SEGMENT_WORDS];
    size_t made = 0;
    for (; d->run && room - made >= MT_SEGMENT_MOST && !d->wrong; d->run--) {
        uint32_t line = lines[d->prev_line].next[0];
        struct word_state *first = &lines[line];
        for (uint32_t i = 0; i < first->words; i++)
            if (!take_word(d, &run, &first[i], &places[i]))
                d->wrong = "an access lies in no live block";
        if (line == NO_LINE)
            d->wrong = "a segment is predicted that never ran";
        if (!d->wrong)
            made += count_events(d, make_events(d, &run, ev + made, line, places));
        d->prev_line = line;
    }
    return made;
}

/* Decode a word by its code; false if it is invalid. */
static bool decode_word(struct decoder *d, const struct run_state *run, struct word_state *s, unsigned code,
                        struct mt_place *p)
{
    switch (code) {
    case WORD_GUESSED:
        return take_word(d, run, s, p);
    case WORD_OTHER:
        return decode_as(d, s, WORD_OTHER, p);
    case WORD_BACK:
        return decode_as(d, s, WORD_BACK, p);
    case WORD_INSIDE:
        return decode_as(d, s, WORD_INSIDE, p);
    case WORD_BLOCK:
        return decode_as(d, s, WORD_BLOCK, p);
    case WORD_FOREIGN:
        s->mode |= MODE_FOREIGN;
        p->slot = MT_NO_SLOT;
        return true;
    case WORD_AGAIN:
        return s->mode & MODE_FOREIGN && decode_as(d, s, WORD_AGAIN, p);
    default:
        return false;
    }
}

/* Decode the segment after a run and return the number of its events. */
static size_t decode_miss(struct decoder *d, struct mt_event *ev)
{
    const struct run_state run = run_state(d);
    struct mt_place places[MT_SEGMENT_WORDS];
    uint32_t line =
        d->misses & MISS_SEGMENT ? decode_segment(d, d->prev_line) : d->book.lines[d->prev_line].next[0];
    uint64_t codes = d->misses & MISS_WORDS ? cursor_uvarint(&d->streams[STREAM_CODES]) : 0;
    struct word_state *first = &d->book.lines[line];
    if (line == NO_LINE || d->misses > (MISS_SEGMENT | MISS_WORDS) || codes >> first->words * WORD_BITS) {
        d->wrong = "a segment is undefined or invalid";
        return 0;
    }
    for (uint32_t i = 0; i < first->words && !d->wrong; i++)
        if (!decode_word(d, &run, &first[i], codes >> i * WORD_BITS & WORD_MASK, &places[i]))
            d->wrong = "an access lies in no live block";
    if (any_bad(d))
        d->wrong = "access streams are cut off";
    if (d->wrong)
        return 0;
    d->prev_line = line;
    d->misses = -1;
    return decoder_segment_events(d, ev, line, places);
}

/* Check the end of a chunk whose accesses were not decoded. */
static bool pass_accesses(struct decoder *d)
{
    d->passed += d->left;
    d->left = 0;
    return d->streams[STREAM_RARE].p == d->streams[STREAM_RARE].end;
}

static bool all_used_up(const struct decoder *d)
{
    bool whole = d->left == 0 || d->salvage;
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        whole &= d->streams[i].p == d->streams[i].end;
    return whole;
}

/* Check the end of a chunk: all streams and events must be used up. */
static void check_end(struct decoder *d)
{
    if (!(d->rare_only ? pass_accesses(d) : all_used_up(d)))
        d->wrong = "chunk ends before its events do";
    d->finished = true;
}

/* Decode the rare record after a run and return its number of events. */
size_t decoder_rare_event(struct decoder *d, struct mt_event *ev)
{
    enum rare_result result = decode_rare(d, ev);
    if (decoder_has_far_blocks(d))
        decode_rare_ahead(d);
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

/* Add the events just made to the batch as a step. */
static size_t as_events(struct decoder *d, size_t made)
{
    if (d->batch)
        batch_events(d->batch, made);
    return made;
}

/* Decode the segment or the rare record after a run. */
static size_t decode_other(struct decoder *d, struct mt_event *ev)
{
    if (d->misses && d->batch)
        return 0;
    return d->misses ? decode_miss(d, ev) : as_events(d, decoder_rare_event(d, ev));
}

static size_t decode_rare_only(struct decoder *d, struct mt_event *events, size_t n)
{
    size_t made = 0;
    while (made < n && !d->finished && !d->wrong)
        made += decoder_rare_event(d, events + made);
    return as_events(d, made);
}

size_t decoder_events(struct decoder *d, struct mt_event *events, size_t n)
{
    size_t made = 0;
    if (d->batch)
        batch_empty(d->batch);
    if (d->rare_only)
        return decode_rare_only(d, events, n);
    while (has_room(d, n - made) && !d->finished && !d->wrong) {
        if (d->misses < 0)
            read_token(d, d->left);
        if (d->wrong)
            break;
        if (d->batch && (d->run || d->misses)) /* there often are several rare records in sequence */
            made += decoder_pack_segments(d, events + made);
        else if (d->run)
            made += decode_run(d, events + made, n - made);
        if (!d->wrong && !d->run && has_room(d, n - made))
            made += decode_other(d, events + made);
    }
    return d->batch ? d->batch->n_steps : made;
}
