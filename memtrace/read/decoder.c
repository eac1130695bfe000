/* decoder.c - decodes EVENTS chunks: tokens and segments.
 *
 * Runs of segments that are as predicted, which are most of a trace, are decoded in a separate loop without reading
 * the streams. Decoding can stop and continue at any segment, so that the caller's array can be small enough for the
 * cache.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/read/decoder.h"
#include "memtrace/base/prefetch.h"
#include "memtrace/base/array.h"

#include <stdlib.h>
#include <string.h>

/* -- the event of an access -- */

/* Values that all events of a run share. They are copied to local variables, because the compiler cannot exclude
 * that writing events changes the originals. */
struct run_state {
    const struct live_block *blocks;
    uint64_t time;
    uint32_t block_count;
    uint16_t thread;
};

static inline struct run_state run_state(const struct decoder *d)
{
    return (struct run_state){d->blocks, d->streams[STREAM_RARE].time, d->block_count, d->thread};
}

static inline void set_access(const struct run_state *run, struct mt_event *ev, uint32_t site, uint32_t size,
                              uint8_t kind, uint32_t slot, uint64_t offset)
{
    const struct live_block *b = &run->blocks[slot];
    *ev = (struct mt_event){.addr = b->base + offset,
                            .size = size,
                            .handle = b->handle,
                            .time = run->time,
                            .offset = offset,
                            .ref = site,
                            .thread = run->thread,
                            .kind = kind,
                            .beyond = size > b->size - offset,
                            .heap = b->heap,
                            .slot = slot};
}

/* -- what the streams say of segments that were not as predicted --
 *
 * The functions are inline, because on average hardly more than one segment in sequence is as predicted, so they
 * belong to the hot loops below. */

/* Read the next token. `left` is the number of events of the chunk not decoded yet. */
static inline void read_token(struct decoder *d, uint32_t left)
{
    struct cursor *c = &d->streams[STREAM_TOKENS];
    uint8_t token = cursor_byte(c);
    d->misses = token & 7;
    d->run = token >> 3;
    if (d->run == RUN_LONG)
        d->run += cursor_uvarint(c);
    if (c->bad)
        d->wrong = "token stream is cut off";
    else if (d->run + (d->misses != 0) > left)
        d->wrong = "more accesses than the chunk has events";
}

/* The line of the segment or site with a name from the stream. */
static inline uint32_t named_line(struct decoder *d, uint64_t name)
{
    uint64_t id = name >> 1;
    if (name & 1)
        return id - 1 < d->book.site_count - 1u ? codebook_site_line(&d->book, (uint32_t)id) : NO_LINE;
    return id < d->book.segment_count ? d->book.segments[id].line : NO_LINE;
}

/* Read the segment after the one at line `prev`, if it is not the predicted one. */
static inline uint32_t decode_segment(struct decoder *d, uint32_t prev)
{
    uint64_t v = cursor_uvarint(&d->streams[STREAM_SEGMENTS]);
    uint32_t line = v == 0 ? d->book.lines[prev].next[1] : named_line(d, v - 1);
    if (line == NO_LINE)
        return NO_LINE;
    if (d->book.lines[line].epoch != d->epoch)
        segment_reset(&d->book.lines[line], d->epoch);
    learn_segment(&d->book.lines[prev], line);
    return line;
}

/* Prefetch the live block that the next number of the stream of slots refers to. */
static inline void prefetch_next_slot(const struct decoder *d)
{
    struct cursor ahead = d->streams[STREAM_SLOTS];
    uint64_t slot;
    if (decoder_has_far_blocks(d) && cursor_within_eight(&ahead, &slot) && slot < d->block_count)
        fetch_soon(&d->blocks[slot]);
}

/* Read the place of a word that is not as predicted; false if it is invalid. This function and the next are always
 * inlined, so that each code has its own copy without tests of the code. */
__attribute__((always_inline)) static inline bool decode_place(struct decoder *d, const struct word_state *s,
                                                               enum word_code code, uint32_t *age,
                                                               struct guess *g)
{
    *g = code == WORD_OTHER ? guess_other(s, &d->recent) : guess_word(s, &d->recent);
    if (code == WORD_BACK) {
        *age = (uint32_t)cursor_uvarint(&d->streams[STREAM_AGES]);
        if (*age - 1 >= RECENT)
            return false;
        *g = guess_back(s, &d->recent, *age);
    }
    if (code == WORD_BLOCK) {
        uint64_t slot = cursor_uvarint(&d->streams[STREAM_SLOTS]);
        g->slot = slot < d->block_count ? (uint32_t)slot : UINT32_MAX;
        prefetch_next_slot(d);
    }
    if (g->slot >= d->block_count)
        return false;
    if (code == WORD_BLOCK || code == WORD_INSIDE)
        g->addr = d->blocks[g->slot].base + cursor_uvarint(&d->streams[STREAM_OFFSETS]);
    return true;
}

/* Read a word that is not foreign and not as predicted, and update the prediction. */
__attribute__((always_inline)) static inline bool decode_as(struct decoder *d, struct word_state *s,
                                                            enum word_code code, struct mt_place *p)
{
    uint32_t age = 0;
    struct guess g;
    if (!decode_place(d, s, code, &age, &g))
        return false;
    learn_miss(s, &d->recent, code, age, g.addr, g.slot);
    *p = (struct mt_place){g.addr, g.slot};
    return true;
}

/* Was the end of one of the streams of accesses exceeded? */
static inline bool any_bad(const struct decoder *d)
{
    const struct cursor *s = d->streams;
    return s[STREAM_SEGMENTS].bad | s[STREAM_SLOTS].bad | s[STREAM_OFFSETS].bad | s[STREAM_CODES].bad |
           s[STREAM_AGES].bad;
}

/* -- events -- */

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

void decoder_note_container(const struct decoder *d, struct live_block *b)
{
    size_t from = 0, to = d->n_containers;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (d->containers[middle] >> 1 < b->handle)
            from = middle + 1;
        else
            to = middle;
    }
    b->container = from < d->n_containers && d->containers[from] >> 1 == b->handle;
    b->kept = b->container && d->containers[from] & 1;
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

/* Make the events of a segment whose words are at these places and return their number, at most MT_SEGMENT_MOST.
 * Implemented in decoder.c. */
static size_t segment_events(struct decoder *d, struct mt_event *ev, uint32_t line,
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
    return segment_events(d, ev, line, places);
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
    const bool is_access = ev->kind > MT_RESIZE; /* others have `kept` in the place of `freed` */
    return !is_access || !ev->freed || d->want_freed;
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

/* -- batches: the steps and places that mt_next_batch delivers --
 *
 * Most segments have one to three words, and on average hardly more than one segment in sequence is wholly as
 * predicted. One loop therefore reads predicted segments, other segments and tokens. Its state is in local variables,
 * because the compiler cannot exclude that writing places changes the originals. */

/* State of the loop; the members after `wrong` are constant. Its address is passed to inline functions only, so
 * that it stays in registers. */
struct packing {
    struct mt_step *step;
    struct mt_place *places;
    uint32_t line, next; /* the current segment; `next` of struct recent */
    uint32_t accesses;   /* number of accesses of the current segment */
    uint32_t left;       /* number of events of the chunk not decoded yet */
    int64_t whole;       /* negative: a word is not wholly in its block */
    bool wrong;          /* a word is in a block that never existed */
    const struct mt_step *end;
    uint64_t time;
};

/* -- the accesses of each segment, for readers of batches -- */

/* Extent of a word with accesses that are undefined or too large. No block has this size, so a segment with such a
 * word is never delivered in a batch. */
#define NEVER UINT32_MAX
#define LONGEST (INT32_MAX - UINT16_MAX) /* with any offset added, it still fits in an int32_t */

static void add_access(struct batch *p, const struct codebook *b, uint32_t line, const struct mt_access *a)
{
    const struct coded_site *site = &b->sites[a->site];
    struct mt_segment_word *word = &p->segments[line + a->word];
    uint16_t offset = (uint16_t)(a->distance - b->lines[line + a->word].lowest);
    /* an access of 0 bytes must begin in its block, too */
    uint32_t end = offset + site->size + !site->size;
    p->accesses[p->n_accesses++] = (struct mt_segment_access){
        .site = a->site, .size = site->size, .offset = offset, .kind = site->kind, .word = (uint8_t)a->word};
    word->own++;
    if (!site->kind || site->size > LONGEST)
        word->extent = NEVER;
    else if (word->extent < end)
        word->extent = end;
}

/* Add the description of the segment that begins at a line. */
static bool add_segment(struct batch *p, const struct codebook *b, uint32_t line)
{
    const struct word_state *first = &b->lines[line];
    const uint32_t name = b->names[line];
    const struct mt_access alone = {name >> 1, 0, 0}, *a = &alone;
    uint32_t count = 1;
    if (!(name & 1)) {
        const struct coded_segment *s = &b->segments[name >> 1];
        a = &b->accesses[s->first];
        count = s->count;
    }
    if (!array_reserve(&p->accesses, &p->room_accesses, p->n_accesses + count, sizeof *p->accesses))
        return false;
    p->segments[line].first = p->n_accesses;
    p->segments[line].count = (uint8_t)count;
    p->segments[line].words = first->words;
    for (uint32_t i = 0; i < count; i++)
        add_access(p, b, line, &a[i]);
    return true;
}

/* Add descriptions of the segments of the codebook that have none yet; false when out of memory. */
static bool batch_learn(struct batch *p, const struct codebook *b)
{
    /* room for one access: there is a first one in the array even if no segment has any */
    if (!array_reserve(&p->segments, &p->room_segments, b->line_count, sizeof *p->segments) ||
        !array_reserve(&p->accesses, &p->room_accesses, 1, sizeof *p->accesses))
        return false;
    for (uint32_t i = p->n_segments; i < b->line_count; i++)
        p->segments[i] = (struct mt_segment_word){0};
    for (; p->n_segments < b->line_count; p->n_segments++)
        if (b->names[p->n_segments] != NO_NAME && !add_segment(p, b, p->n_segments))
            return false;
    return true;
}

static bool know_segments(struct decoder *d)
{
    if (d->batch->n_segments >= d->book.line_count || batch_learn(d->batch, &d->book))
        return true;
    d->wrong = "out of memory for segments";
    return false;
}

/* Are `extent` > 0 bytes from `addr` in the block? The result is negative if not. There are no branches, and
 * several results can be joined by `|`. The result is also negative for offsets of half the address space or more,
 * and for extents above INT32_MAX, which mark words that never fit. */
static inline int64_t lies_whole(const struct live_block *b, uint64_t addr, uint32_t extent)
{
    const uint64_t offset = addr - b->base, room = b->size - offset;
    const uint64_t bytes = (uint64_t)(int32_t)extent;
    return (int64_t)(offset | room | (room - bytes) | bytes);
}

/* Decode the place of a word that is as predicted. */
static inline void pack_word(struct packing *k, struct decoder *d, const struct live_block *blocks,
                             struct word_state *s, const struct mt_segment_word *segment,
                             struct mt_place *place)
{
    if (s->mode & MODE_FOREIGN) {
        place->slot = MT_NO_SLOT;
        k->accesses -= segment->own;
        return;
    }
    const struct guess g = guess_word_at(s, &d->recent, k->next);
    if (__builtin_expect(g.slot >= d->block_count, 0)) {
        k->wrong = true;
        return;
    }
    k->whole |= lies_whole(&blocks[g.slot], g.addr, segment->extent);
    learn_own(s, g.addr, g.slot);
    recent_put(&d->recent, k->next++, g.addr, g.slot);
    place->addr = g.addr;
    place->slot = g.slot;
}

/* Decode the places of a segment that is as predicted. The step is added later. */
static inline void pack_segment(struct packing *k, struct decoder *d, struct word_state *lines,
                                const struct live_block *blocks, const struct mt_segment_word *segments)
{
    uint32_t line = lines[k->line].next[0];
    struct word_state *s = &lines[line];
    const uint32_t words = s->words;
    k->line = line;
    k->accesses = segments[line].count;
    pack_word(k, d, blocks, s, &segments[line], k->places);
    for (uint32_t i = 1; i < words; i++)
        pack_word(k, d, blocks, &s[i], &segments[line + i], &k->places[i]);
}

/* Must the current segment be delivered as events? */
static inline bool is_early(const struct packing *k)
{
    return __builtin_expect((k->whole < 0) | k->wrong, 0) || __builtin_expect(k->accesses > k->left, 0) ||
           __builtin_expect(k->line == NO_LINE, 0);
}

/* Store a step field by field, because the compiler would first assemble a compound literal in registers. */
static inline void put_step(struct mt_step *step, uint64_t time, uint32_t line, uint16_t thread,
                            uint32_t accesses)
{
    step->time = time;
    step->segment = line;
    step->thread = thread;
    step->count = (uint16_t)accesses;
}

static inline void deliver_segment(struct packing *k, const struct decoder *d,
                                   const struct mt_segment_word *segments)
{
    k->left -= k->accesses;
    if (!k->accesses)
        return;
    put_step(k->step++, k->time, k->line, d->thread, k->accesses);
    k->places += segments[k->line].words;
}

/* Decode a run of segments that are as predicted; false if it stopped before the end of the run. */
__attribute__((always_inline)) static inline bool pack_run(struct packing *k, struct decoder *d)
{
    const struct mt_segment_word *segments = d->batch->segments;
    uint64_t run = d->run;
    for (; run && k->step < k->end; run--) {
        pack_segment(k, d, d->book.lines, d->blocks, segments);
        if (is_early(k))
            break;
        deliver_segment(k, d, segments);
    }
    d->run = run;
    return run == 0;
}

/* Decode the place of a word that is not as predicted; false if it is invalid. */
__attribute__((always_inline)) static inline bool decode_missed(struct decoder *d, struct word_state *s,
                                                                unsigned code, struct mt_place *place)
{
    switch (code) {
    case WORD_OTHER:
        return decode_as(d, s, WORD_OTHER, place);
    case WORD_BACK:
        return decode_as(d, s, WORD_BACK, place);
    case WORD_INSIDE:
        return decode_as(d, s, WORD_INSIDE, place);
    case WORD_BLOCK:
        return decode_as(d, s, WORD_BLOCK, place);
    case WORD_AGAIN:
        return s->mode & MODE_FOREIGN && decode_as(d, s, WORD_AGAIN, place);
    default:
        return false;
    }
}

__attribute__((always_inline)) static inline void pack_missed(struct packing *k, struct decoder *d,
                                                              struct word_state *s,
                                                              const struct mt_segment_word *segment,
                                                              unsigned code, struct mt_place *place)
{
    if (code == WORD_FOREIGN) {
        s->mode |= MODE_FOREIGN;
        place->slot = MT_NO_SLOT;
        k->accesses -= segment->own;
        return;
    }
    d->recent.next = k->next;
    if (decode_missed(d, s, code, place))
        k->whole |= lies_whole(&d->blocks[place->slot], place->addr, segment->extent);
    else
        k->wrong = true;
    k->next = d->recent.next;
}

/* Decode the places of a segment that is not as predicted. */
__attribute__((always_inline)) static inline void pack_words(struct packing *k, struct decoder *d,
                                                             struct word_state *first, uint64_t codes)
{
    const struct mt_segment_word *segment = &d->batch->segments[k->line];
    const uint32_t words = first->words;
    k->accesses = segment->count;
    for (uint32_t i = 0; i < words; i++, codes >>= WORD_BITS)
        if (codes & WORD_MASK)
            pack_missed(k, d, &first[i], &segment[i], codes & WORD_MASK, &k->places[i]);
        else
            pack_word(k, d, d->blocks, &first[i], &segment[i], &k->places[i]);
}

/* Decode the segment after a run; false if it stopped there. */
__attribute__((always_inline)) static inline bool pack_miss(struct packing *k, struct decoder *d)
{
    const unsigned misses = (unsigned)d->misses;
    const uint32_t line = misses & MISS_SEGMENT ? decode_segment(d, k->line) : d->book.lines[k->line].next[0];
    const uint64_t codes = misses & MISS_WORDS ? cursor_uvarint(&d->streams[STREAM_CODES]) : 0;
    struct word_state *first = &d->book.lines[line];
    if (line == NO_LINE || misses > (MISS_SEGMENT | MISS_WORDS) || codes >> first->words * WORD_BITS) {
        d->wrong = "a segment is undefined or invalid";
        return false;
    }
    if (!know_segments(d))
        return false;
    k->line = line;
    pack_words(k, d, first, codes);
    if (any_bad(d))
        d->wrong = "access streams are cut off";
    if (d->wrong || is_early(k))
        return false;
    deliver_segment(k, d, d->batch->segments);
    return true;
}

static size_t unpack(struct decoder *d, struct mt_event *ev, uint32_t line, const struct mt_place *places)
{
    size_t made = segment_events(d, ev, line, places);
    batch_events(d->batch, made);
    return made;
}

/* Deliver the current segment as events, and return their number. */
static size_t end_early(struct decoder *d, const struct packing *k, struct mt_event *ev)
{
    if (d->wrong)
        return 0;
    if (k->line == NO_LINE)
        d->wrong = "a segment is predicted that never ran";
    else if (k->wrong)
        d->wrong = "an access lies in no live block";
    else if (k->whole >= 0)
        d->wrong = "more accesses than the chunk has events";
    if (d->wrong)
        return 0;
    if (d->run)
        d->run--;
    else
        d->misses = -1;
    return unpack(d, ev, k->line, k->places);
}

/* Copy the state of the loop back to the decoder and the batch. */
static void end_packing(struct decoder *d, const struct packing *k)
{
    struct batch *p = d->batch;
    p->n_steps = (uint32_t)(k->step - p->steps);
    p->n_places = (uint32_t)(k->places - p->places);
    p->total += d->left - k->left;
    d->left = k->left;
    d->recent.next = k->next;
    d->prev_line = k->line;
}

static inline struct packing begin_packing(const struct decoder *d)
{
    struct batch *p = d->batch;
    return (struct packing){.step = &p->steps[p->n_steps],
                            .end = &p->steps[BATCH_STEPS],
                            .places = batch_places(p),
                            .time = d->streams[STREAM_RARE].time,
                            .left = d->left,
                            .line = d->prev_line,
                            .next = d->recent.next};
}

/* Add segments to the batch: the current run, the segment after it, and those of the following tokens. Stops when
 * the batch is full, at a rare record, or at a segment that has to be delivered as events. Returns the number of
 * events made. */
static size_t pack_segments(struct decoder *d, struct mt_event *ev)
{
    if (!know_segments(d))
        return 0;
    struct packing k = begin_packing(d);
    bool whole;
    while ((whole = pack_run(&k, d)) && d->misses > 0 && k.step < k.end && (whole = pack_miss(&k, d))) {
        read_token(d, k.left);
        if (d->wrong)
            break;
    }
    end_packing(d, &k);
    return whole || k.step == k.end ? 0 : end_early(d, &k, ev);
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
            made += pack_segments(d, events + made);
        else if (d->run)
            made += decode_run(d, events + made, n - made);
        if (!d->wrong && !d->run && has_room(d, n - made))
            made += decode_other(d, events + made);
    }
    return d->batch ? d->batch->n_steps : made;
}

void batch_free(struct batch *p)
{
    if (!p)
        return;
    free(p->segments);
    free(p->accesses);
    free(p);
}
