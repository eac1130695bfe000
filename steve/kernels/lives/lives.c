/* lives.c - the life of each block; see lives.h.
 *
 * To know the bytes of each block at the peak of the heap without a walk over all blocks at every new peak, peaks are
 * numbered, and a block notes its bytes the first time they change after a peak.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/lives.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/batch_walk.h"
#include "steve/kernels/base/prefetch.h"
#include "steve/kernels/base/walk.h"
#include "steve/kernels/lines/line_segments.h"

#define PIECE 8192 /* records of lives_finish */

void lives_init(struct lives *l, const uint8_t *selected, uint64_t n_selected)
{
    memset(l, 0, sizeof *l);
    l->times = 1;
    l->selected = selected;
    l->n_selected = n_selected;
}

void lives_free(struct lives *l)
{
    free(l->blocks);
    free(l->out);
    free(l->sites);
    free(l->threads);
    free(l->maps);
    free(l->pieces);
    segment_runs_free(&l->runs);
}

/* How a life ended. */
struct lives_ending {
    bool freed;
    uint16_t thread; /* that freed it */
};

/* ---- births and deaths --------------------------------------------------------------------- */

/* A number of a block, multiplied by its weight. */
static inline uint64_t scaled(const struct lives_block *b, uint64_t x)
{
    return mt_scaled(b->weight, x);
}

/* The bytes of a block that count as live: none, if another allocator divides it into blocks of its own. */
static inline uint64_t held(const struct lives_block *b)
{
    return b->container ? 0 : b->size;
}

/* Note the bytes that a block had at the last peak, before they change. */
static void note_peak(const struct lives *l, struct lives_block *b)
{
    if (b->peak == l->totals.peak)
        return;
    b->peak = l->totals.peak;
    b->peak_bytes = held(b);
}

/* A New or Resize has given a block its size. */
static void heap_grew(struct lives *l, const struct lives_block *b)
{
    struct lives_totals *t = &l->totals;

    t->allocated += scaled(b, b->size);
    t->live_bytes += scaled(b, held(b));
    if (t->live_bytes > t->peak_bytes) {
        t->peak_bytes = t->live_bytes;
        t->peak++;
    }
}

/* Write the record of a block that ended at a moment. All fields are set, so it need not be cleared before. */
static inline void write_life(struct life *restrict to, const struct lives *restrict l,
                              const struct lives_block *restrict b, const struct lives_moment *restrict at,
                              const struct lives_ending *restrict ending)
{
    static const struct lives_use s_none; /* so that `use` of a block without accesses is not loaded */
    const struct lives_use *use = b->touched ? &b->use : &s_none;
    const uint64_t *n = use->counts, *bytes = use->bytes_of;
    uint64_t now = l->before + at->operations;

    *to = (struct life){.handle = b->handle,
                        .size = b->size,
                        .bytes = b->bytes,
                        .resizes = b->resizes,
                        .first_size = b->first_size,
                        .most = b->most,
                        .moves = b->moves,
                        .copied = b->copied,
                        .born_allocated = b->born_allocated,
                        .died_allocated = at->allocated,
                        .born = l->before + b->born,
                        .died = now,
                        .born_time = b->born_time,
                        .died_time = at->time,
                        .first_use = b->touched ? l->before + use->first_use : now,
                        .last_use = b->touched ? l->before + use->last_use : now,
                        .loads = n[0],
                        .stores = n[1],
                        .modifies = n[2],
                        .bytes_read = bytes[0] + bytes[2],
                        .bytes_written = bytes[1] + bytes[2],
                        .used = use->parts ? usedparts_bytes(use->parts, b->size) : 0,
                        .extent = use->parts ? usedparts_extent(use->parts, b->size) : 0,
                        .news = at->news - b->news,
                        .peak = b->peak,
                        .peak_bytes = b->peak_bytes,
                        .weight = b->weight,
                        .stack = b->stack,
                        .heap = b->heap,
                        .last_stack = b->last_stack,
                        .thread = b->thread,
                        .free_thread = ending->thread,
                        .how = b->how & LIVES_HOW,
                        .inherited = b->how & LIVES_INHERITED ? LIFE_INHERITED
                                     : b->how & LIVES_EARLIER ? LIFE_EARLIER
                                                              : 0,
                        .freed = ending->freed,
                        .shared = b->shared,
                        .type = b->type,
                        .reach = b->reach,
                        .container = b->container,
                        .kept = b->kept};
}

/* The compiler removes the fields that the sum does not use. */
static bool add_life(struct lives *l, const struct lives_block *b, const struct lives_moment *at,
                     const struct lives_ending *ending)
{
    struct life life;

    write_life(&life, l, b, at, ending);
    return groups_take(l->sums, &life);
}

static bool put_life(struct lives *l, const struct lives_block *b, const struct lives_moment *at,
                     const struct lives_ending *ending)
{
    if (!array_grow(&l->out, &l->out_room, l->n_out + 1, sizeof *l->out))
        return false;
    write_life(&l->out[l->n_out++], l, b, at, ending);
    return true;
}

/* Write the record of a block that ended at a moment; false when out of memory. */
static bool retire(struct lives *l, struct lives_block *b, const struct lives_moment *at,
                   const struct lives_ending *ending)
{
    if (l->lines)
        linework_count_made(l->lines, b->stack, b->heap, b->type, scaled(b, 1), scaled(b, b->bytes));
    b->live = false;
    return l->sums ? add_life(l, b, at, ending) : put_life(l, b, at, ending);
}

static struct lives_moment moment_of(const struct lives *l)
{
    return (struct lives_moment){l->totals.operations, l->totals.allocated, l->totals.news, l->totals.time};
}

/* A block's life is over; false when out of memory. */
static bool end_life(struct lives *l, struct lives_block *b, const struct lives_ending *ending)
{
    struct lives_moment now = moment_of(l);

    if (l->lines)
        linework_forget(l->lines, (uint32_t)(b - l->blocks));
    note_peak(l, b);
    return retire(l, b, &now, ending);
}

/* Add the piece of a block that crosses a border of the shard. */
static bool piece_add(struct lives *l, struct lives_block *b, uint16_t thread, bool freed)
{
    uint32_t slot = (uint32_t)(b - l->blocks);

    if (!array_grow(&l->pieces, &l->pieces_room, l->n_pieces + 1, sizeof *l->pieces))
        return false;
    note_peak(l, b);
    b->live = !freed;
    l->pieces[l->n_pieces++] =
        (struct lives_piece){.block = *b,
                             .map = b->earlier ? l->maps[slot] : (struct usedparts_map){0},
                             .ended = moment_of(l),
                             .slot = slot,
                             .free_thread = thread,
                             .freed = freed};
    return true;
}

/* A block made before the shard was freed. */
static bool end_earlier(struct lives *l, struct lives_block *b, uint16_t thread)
{
    return (!l->lines || lines_shard_end(l->lines, (uint32_t)(b - l->blocks))) &&
           piece_add(l, b, thread, true);
}

static bool block_free(struct lives *l, struct lives_block *b, const struct mt_event *e)
{
    const struct lives_ending ending = {true, e->thread};

    const uint64_t blocks = scaled(b, 1);

    if (!(b->earlier ? end_earlier(l, b, e->thread) : end_life(l, b, &ending)))
        return false;
    l->totals.live_bytes -= scaled(b, held(b));
    l->totals.live_blocks -= blocks;
    l->totals.frees += blocks;
    l->totals.operations += blocks - 1; /* the caller counts one */
    return true;
}

bool lives_is_selected(const struct lives *l, uint64_t handle)
{
    return handle >= l->since &&
           (!l->selected || (handle < l->n_selected && (l->selected[handle / 8] >> handle % 8 & 1)));
}

/* Set the fields of a new block one by one, because clearing all of them first took as long as all the rest. */
static void begin_life(const struct lives *l, struct lives_block *b, const struct mt_event *e)
{
    if (!l->lines)
        b->use = (struct lives_use){0};
    b->addr = e->addr;
    b->thread = e->thread;
    b->how = (uint8_t)(e->how | (e->implied ? e->beyond ? LIVES_EARLIER : LIVES_INHERITED : 0));
    b->shift = usedparts_shift(e->size);
    b->live = true;
    b->container = e->container;
    b->kept = e->kept;
    b->touched = b->shared = b->type = b->reach = b->earlier = 0;
    b->stack = b->last_stack = e->ref;
    b->heap = e->heap;
    b->handle = e->handle;
    b->size = b->bytes = b->first_size = b->most = e->size;
    b->born_time = e->time;
    b->weight = mt_event_weight(e);
    b->born = l->totals.operations + scaled(b, 1) - 1; /* of the blocks that it stands for, the last one's */
    b->born_allocated = l->totals.allocated + scaled(b, e->size);
    b->news = l->totals.news + scaled(b, 1);
    b->peak = l->totals.peak;
    b->peak_bytes = b->resizes = b->moves = b->copied = 0;
}

static bool block_new(struct lives *l, const struct mt_event *e)
{
    struct lives_block *b;

    if (!array_grow(&l->blocks, &l->room, (size_t)e->slot + 1, sizeof *l->blocks))
        return false;
    b = &l->blocks[e->slot];
    if (b->live && !block_free(l, b, e))
        return false;
    begin_life(l, b, e);
    l->times = scaled(b, 1);
    l->totals.news += scaled(b, 1);
    l->totals.live_blocks += scaled(b, 1);
    l->totals.operations += scaled(b, 1) - 1; /* the caller counts one */
    heap_grew(l, b);
    return !l->lines || linework_begin(l->lines, e->slot, e->ref);
}

/* Count a Resize. */
static void note_growth(struct lives_block *b, const struct mt_event *e)
{
    if (e->addr != e->old_addr) {
        b->moves++;
        b->copied += e->size < b->size ? e->size : b->size;
    }
    if (e->size > b->most)
        b->most = e->size;
    b->resizes++;
}

static void block_resize(struct lives *l, struct lives_block *b, const struct mt_event *e)
{
    if (b->earlier)
        usedparts_map_add(&l->maps[b - l->blocks], b->size, e->size);
    note_peak(l, b);
    note_growth(b, e);
    l->totals.resizes += scaled(b, 1);
    l->totals.operations += scaled(b, 1) - 1; /* the caller counts one */
    l->totals.live_bytes -= scaled(b, held(b));
    b->use.parts = usedparts_resized(b->use.parts, b->size, e->size);
    b->shift = usedparts_shift(e->size);
    b->addr = e->addr;
    b->last_stack = e->ref;
    b->size = e->size;
    b->bytes += e->size;
    heap_grew(l, b);
}

/* ---- accesses ------------------------------------------------------------------------------ */

static inline void count(struct access_sums *a, unsigned kind, uint64_t size)
{
    a->counts[kind]++;
    a->bytes[kind] += size;
}

/* The first access to a block. If the block was made before the shard, this thread is noted instead of the one that
 * made it. */
static inline void first_access(struct lives_block *b, uint64_t now, uint16_t thread)
{
    b->touched = true;
    b->use.first_use = now;
    if (b->earlier)
        b->thread = thread;
}

static inline void block_access(struct lives *l, struct lives_block *b, const struct mt_event *e)
{
    uint64_t now = l->totals.operations;
    unsigned kind = e->kind - MT_LOAD;

    if (!b->touched)
        first_access(b, now, e->thread);
    b->use.last_use = now;
    b->use.counts[kind]++;
    b->use.bytes_of[kind] += e->size;
    b->use.parts |= usedparts_of(b->shift, e->offset, e->offset + e->size - (e->size > 0));
    b->shared |= b->thread != e->thread;
    l->totals.accesses += l->times;
    l->totals.operations += l->times - 1; /* the caller counts one */
    count(&l->threads[e->thread], kind, e->size);
    count(&l->sites[e->ref < l->sites_room ? e->ref : 0], kind, e->size);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static bool step(struct lives *l, const struct mt_event *e)
{
    struct lives_block *b = e->slot < l->room && l->blocks[e->slot].live ? &l->blocks[e->slot] : NULL;

    if (e->kind == MT_NEW)
        return !lives_is_selected(l, e->handle) || block_new(l, e);
    if (!b)
        return true;
    if (e->kind == MT_FREE)
        return block_free(l, b, e);
    if (e->kind == MT_RESIZE) {
        block_resize(l, b, e);
        return true;
    }
    block_access(l, b, e);
    return true;
}

static void note_type(struct lives *l, const struct mt_event *e)
{
    if (e->slot < l->room && l->blocks[e->slot].live)
        l->blocks[e->slot].type = (uint8_t)e->ref;
}

static void note_reach(struct lives *l, const struct mt_event *e)
{
    if (e->slot < l->room && l->blocks[e->slot].live)
        l->blocks[e->slot].reach = (uint8_t)e->ref;
}

static bool reserve_sums(struct lives *l, uint32_t sites)
{
    if (!l->threads) /* memory that no thread uses is never touched */
        l->threads = calloc(UINT16_MAX + 1, sizeof *l->threads);
    return l->threads && array_grow(&l->sites, &l->sites_room, (size_t)sites + 1, sizeof *l->sites);
}

/* False when out of memory. */
static inline bool feed_event(struct lives *l, const struct mt_event *e)
{
    bool to_line = l->lines && walk_is_access(e);

    if (l->lines && !(to_line ? linework_access(l->lines, e) : luacode_follow(l->lines->code, e)))
        return false;
    if (e->kind == MT_TYPE)
        note_type(l, e);
    if (e->kind == MT_REACH)
        note_reach(l, e);
    if (e->kind > MT_MODIFY || (e->freed && e->kind >= MT_LOAD))
        return true;
    l->totals.time = e->time;
    if (!to_line && !step(l, e))
        return false;
    l->totals.operations++;
    return true;
}

/* One access of a segment to a block. */
static inline void segment_access(struct lives_block *b, const struct mt_segment_access *a, uint64_t offset,
                                  uint64_t now, uint16_t thread)
{
    unsigned kind = a->kind - MT_LOAD;

    if (!b->touched)
        first_access(b, now, thread);
    b->use.last_use = now;
    b->use.counts[kind]++;
    b->use.bytes_of[kind] += a->size;
    b->use.parts |= usedparts_within(b->shift, offset, offset + a->size - (a->size > 0));
}

static inline struct lives_block *block_at(struct lives *l, uint32_t slot)
{
    return slot < l->room && l->blocks[slot].live ? &l->blocks[slot] : NULL;
}

/* The position of a word; block: NULL, or one that counts. */
struct used {
    struct lives_block *block;
    uint64_t offset;
    uint64_t operations; /* that an access counts: 0 outside of all blocks, else 1 or lives.times */
};

/* A word of a segment lies in no block that counts. */
static void miss_word(struct lives *l, const struct mt_batch *p, const struct mt_step *step, unsigned word)
{
    segment_runs_absent(&l->runs, step->segment + word, &l->threads[step->thread]);
    l->totals.accesses -= l->times * p->segments[step->segment + word].own;
}

static inline void find_words(struct lives *l, const struct mt_batch *p, const struct mt_step *step,
                              const struct mt_place *places, unsigned n, struct used *to)
{
    for (unsigned i = 0; i < n; i++) {
        struct lives_block *b = block_at(l, places[i].slot);

        to[i] =
            (struct used){b, b ? places[i].addr - b->addr : 0, places[i].slot != MT_NO_SLOT ? l->times : 0};
        if (b)
            b->shared |= b->thread != step->thread && (b->touched || !b->earlier);
        else
            miss_word(l, p, step, i);
    }
}

/* A segment ran. */
static inline void feed_segment(struct lives *l, const struct mt_batch *p, const struct mt_step *step,
                                const struct mt_place *places)
{
    const struct mt_segment_word *segment = &p->segments[step->segment];
    const struct mt_segment_access *a = &p->accesses[segment->first];
    uint64_t now = l->totals.operations;
    struct used words[MT_SEGMENT_WORDS];

    segment_runs_add(&l->runs, step->segment, &l->threads[step->thread]);
    l->totals.accesses += l->times * segment->count;
    find_words(l, p, step, places, segment->words, words);
    for (const struct mt_segment_access *end = a + segment->count; a < end; a++) {
        const struct used *word = &words[a->word];

        if (word->block)
            segment_access(word->block, a, word->offset + a->offset, now, step->thread);
        now += word->operations;
    }
    l->totals.operations += l->times * step->count;
    l->totals.time = step->time;
}

/* A segment ran: count it for lines. False when out of memory. */
static bool feed_lines(struct lives *l, const struct mt_batch *p, const struct mt_step *step,
                       const struct mt_place *places)
{
    l->totals.operations += l->times * step->count;
    l->totals.time = step->time;
    return line_segments_ran(l->lines, p, step, places);
}

/* The memory of blocks that a batch will need; with a linework, without what accesses change. */
static struct ahead ahead_of(const struct lives *l, size_t past, size_t need)
{
    return (struct ahead){l->blocks, l->room, sizeof *l->blocks, past, need};
}

static void prefetch_words(const struct lives *l, const struct mt_batch *p)
{
    ahead_words(l->lines ? linework_ahead(l->lines) : ahead_of(l, 0, 2 * AHEAD_LINE), p);
}

static inline void prefetch_events(const struct lives *l, const struct mt_batch *p,
                                   const struct mt_event *next, unsigned n)
{
    const size_t past = l->lines ? sizeof(struct lives_use) : 0;

    ahead_events(ahead_of(l, past, sizeof *l->blocks - past), p, next, n);
    if (l->lines)
        ahead_events(linework_ahead(l->lines), p, next, n);
}

static inline bool take_segment(struct lives *l, const struct mt_batch *p, const struct mt_step *step,
                                const struct mt_place *places)
{
    if (l->lines)
        return feed_lines(l, p, step, places);
    feed_segment(l, p, step, places);
    return true;
}

static inline bool take_events(struct lives *l, const struct mt_batch *p, const struct mt_event *events,
                               unsigned n)
{
    prefetch_events(l, p, events, n);
    for (const struct mt_event *end = events + n; events < end; events++)
        if (!feed_event(l, events))
            return false;
    return true;
}

BATCH_WALK(lives, take_events, take_segment)

bool lives_feed(struct lives *l, const struct mt_batch *p, uint32_t sites)
{
    if (!reserve_sums(l, sites) || !segment_runs_learn(&l->runs, p) ||
        (l->lines && !line_segments_learn(l->lines, p)))
        return false;
    prefetch_words(l, p);
    if (!lives_walk(l, p))
        return false;
    segment_runs_settle(&l->runs, p, l->sites, l->sites_room);
    return true;
}

void lives_end(struct lives *l, uint64_t time)
{
    if (time > l->totals.time)
        l->totals.time = time;
}

bool lives_finish(struct lives *l)
{
    const struct lives_ending ending = {false, 0};

    for (; l->finished < l->room && l->n_out < PIECE; l->finished++)
        if (l->blocks[l->finished].live && !end_life(l, &l->blocks[l->finished], &ending))
            return false;
    return true;
}

void lives_mark(uint8_t *set, uint64_t n_bits, const struct life *lives, const uint8_t *keep, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (keep[i] && lives[i].handle < n_bits)
            set[lives[i].handle / 8] |= (uint8_t)(1u << lives[i].handle % 8);
}

/* ---- a shard ------------------------------------------------------------------------------- */

bool lives_shard_enter(struct lives *l, const struct mt_live_block *live)
{
    if (!lives_is_selected(l, live->handle))
        return true;
    if (!array_grow(&l->blocks, &l->room, (size_t)live->slot + 1, sizeof *l->blocks) ||
        !array_grow(&l->maps, &l->maps_room, (size_t)live->slot + 1, sizeof *l->maps))
        return false;
    l->blocks[live->slot] = (struct lives_block){.handle = live->handle,
                                                 .addr = live->addr,
                                                 .size = live->size,
                                                 .heap = live->heap,
                                                 .shift = usedparts_shift(live->size),
                                                 .type = LIVESPARTS_SAME,
                                                 .earlier = true,
                                                 .live = true,
                                                 .container = live->container,
                                                 .kept = live->kept};
    l->totals.live_blocks++;
    l->totals.live_bytes += live->container ? 0 : live->size;
    l->totals.peak_bytes = l->totals.live_bytes;
    return true;
}

/* Did nothing happen to a block in the shard? */
static bool is_idle(const struct lives_block *b)
{
    return b->earlier && !b->touched && b->resizes == 0 && b->type == LIVESPARTS_SAME &&
           b->reach == MT_REACH_FULL;
}

bool lives_shard_finish(struct lives *l)
{
    for (size_t i = 0; i < l->room; i++) {
        struct lives_block *b = &l->blocks[i];

        if (b->live && !is_idle(b) && !piece_add(l, b, 0, false))
            return false;
    }
    return !l->lines || lines_shard_finish(l->lines);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void add_accesses(struct lives_block *b, const struct lives_block *piece, uint64_t before)
{
    if (!piece->touched)
        return;
    if (!b->touched)
        b->use.first_use = before + piece->use.first_use;
    b->touched = true;
    b->use.last_use = before + piece->use.last_use;
    for (unsigned kind = 0; kind < 3; kind++) {
        b->use.counts[kind] += piece->use.counts[kind];
        b->use.bytes_of[kind] += piece->use.bytes_of[kind];
    }
    b->shared |= piece->shared || piece->thread != b->thread;
}

static void add_resizes(struct lives_block *b, const struct lives_piece *p)
{
    const struct lives_block *piece = &p->block;

    b->use.parts = usedparts_mapped(&p->map, b->use.parts, piece->size) | piece->use.parts;
    b->shift = piece->shift;
    b->addr = piece->addr;
    b->size = piece->size;
    b->bytes += piece->bytes;
    b->last_stack = piece->resizes ? piece->last_stack : b->last_stack;
    b->resizes += piece->resizes;
    b->moves += piece->moves;
    b->copied += piece->copied;
    b->most = piece->most > b->most ? piece->most : b->most;
}

/* Set the bytes at the last peak. at_peak: number of the shard's last peak, if that is a peak of the whole; else 0. */
static void set_peak(const struct lives *whole, struct lives_block *b, const struct lives_block *piece,
                     uint64_t at_peak)
{
    if (at_peak == 0 && piece->earlier) {
        note_peak(whole, b);
        return;
    }
    b->peak = whole->totals.peak;
    b->peak_bytes = at_peak && piece->peak == at_peak ? piece->peak_bytes : 0;
}

/* A block that was made in the shard lives on. */
static bool enter(struct lives *whole, const struct lives_piece *p, uint64_t at_peak)
{
    struct lives_block *b;

    if (!array_grow(&whole->blocks, &whole->room, (size_t)p->slot + 1, sizeof *whole->blocks))
        return false;
    b = &whole->blocks[p->slot];
    *b = p->block;
    b->born += whole->totals.operations;
    b->use.first_use += whole->totals.operations;
    b->use.last_use += whole->totals.operations;
    b->born_allocated += whole->totals.allocated;
    b->news += whole->totals.news;
    set_peak(whole, b, &p->block, at_peak);
    return true;
}

/* A block from an earlier shard was freed. */
static bool end(struct lives *whole, struct lives_block *b, const struct lives_piece *p)
{
    const struct lives_totals *t = &whole->totals;
    struct lives_moment at = {t->operations + p->ended.operations, t->allocated + p->ended.allocated,
                              t->news + p->ended.news, p->ended.time};
    struct lives_ending ending = {true, p->free_thread};

    return retire(whole, b, &at, &ending);
}

static bool add_piece(struct lives *whole, const struct lives_piece *p, uint64_t at_peak)
{
    struct lives_block *b;

    if (!p->block.earlier)
        return enter(whole, p, at_peak);
    b = p->slot < whole->room ? &whole->blocks[p->slot] : NULL;
    if (!b || !b->live || b->handle != p->block.handle)
        return true; /* the shard's list of live blocks was wrong */
    set_peak(whole, b, &p->block, at_peak);
    add_accesses(b, &p->block, whole->totals.operations);
    add_resizes(b, p);
    if (p->block.type != LIVESPARTS_SAME)
        b->type = p->block.type;
    if (p->block.reach != MT_REACH_FULL)
        b->reach = p->block.reach;
    return !p->freed || end(whole, b, p);
}

/* After all pieces were added. */
static void add_totals(struct lives_totals *t, const struct lives_totals *part,
                       const struct lives_totals *began)
{
    struct lives_totals own = *part;

    own.live_bytes -= began->live_bytes;
    own.live_blocks -= began->live_blocks;
    lives_totals_merge(t, &own);
}

bool lives_merge(struct lives *whole, const struct lives_piece *pieces, size_t n,
                 const struct lives_totals *part, const struct lives_totals *began)
{
    bool higher = part->peak > 0 && part->peak_bytes > whole->totals.peak_bytes;

    if (higher) {
        whole->totals.peak++;
        whole->totals.peak_bytes = part->peak_bytes;
    }
    for (size_t i = 0; i < n; i++)
        if (!add_piece(whole, &pieces[i], higher ? part->peak : 0))
            return false;
    add_totals(&whole->totals, part, began);
    return true;
}
