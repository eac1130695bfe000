/* lua_work.c - the bytes of accesses that belong to a Lua instruction instead of their sites; see lua_work.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lines/lua_work.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/batch_walk.h"

/* An access of a segment. */
struct access {
    uint32_t touch, site;
    struct luawork_bytes bytes;
};

struct touch {
    uint64_t moved; /* executions whose accesses did not belong to their sites; not subtracted yet */
    struct luawork_bytes bytes; /* of one execution */
    uint32_t site;              /* of its last access */
    uint16_t from;              /* of its first access, from the place of its word */
    uint8_t word;
    bool jitted, fetch; /* is it by machine code of a trace; might it fetch an instruction: one access */
};

/* A segment, by id. */
struct segment {
    uint32_t first; /* touch, in program order */
    uint8_t n;
    bool jitted; /* are all by machine code of traces? */
};

struct luawork {
    struct luacode code;
    struct luawork_sums sites, stacks, places;
    struct segment *segments;
    struct touch *touches;
    struct access *accesses;
    size_t segments_room, touches_room, accesses_room;
    uint32_t n_segments, n_touches, n_accesses;
};

struct luawork *luawork_new(const struct mt_reader *reader)
{
    struct luawork *w = calloc(1, sizeof *w);

    if (w && !luacode_init(&w->code, reader)) {
        luawork_free(w);
        w = NULL;
    }
    return w;
}

void luawork_free(struct luawork *w)
{
    if (!w)
        return;
    luacode_free(&w->code);
    free(w->sites.of);
    free(w->stacks.of);
    free(w->places.of);
    free(w->segments);
    free(w->touches);
    free(w->accesses);
    free(w);
}

static bool reach(struct luawork_sums *sums, uint32_t n)
{
    sums->n = n > sums->n ? n : sums->n;
    return array_grow(&sums->of, &sums->room, sums->n, sizeof *sums->of);
}

static bool learn(struct luawork *w)
{
    const struct mt_reader *reader = w->code.reader;

    return luacode_learn(&w->code) && (!w->code.follows || (reach(&w->sites, mt_count_sites(reader)) &&
                                                            reach(&w->stacks, mt_count_stacks(reader)) &&
                                                            reach(&w->places, w->code.n_places)));
}

bool luawork_begin_shard(struct luawork *w, const struct luacode_thread *threads, size_t n)
{
    return luacode_set_threads(&w->code, threads, (uint32_t)n) && learn(w);
}

bool luawork_enter(struct luawork *w, const struct mt_live_block *live)
{
    return luacode_enter(&w->code, live);
}

/* ---- segments ------------------------------------------------------------------------------ */

static struct luawork_bytes bytes_of(unsigned kind, uint64_t size)
{
    return (struct luawork_bytes){kind != MT_STORE ? size : 0, kind != MT_LOAD ? size : 0};
}

/* The touch of a word: one from number `first` on, or a new one. */
static uint32_t touch_of(struct luawork *w, uint32_t first, const struct touch *one)
{
    for (uint32_t i = first; i < w->n_touches; i++)
        if (w->touches[i].word == one->word)
            return i;
    w->touches[w->n_touches] = *one;
    return w->n_touches++;
}

/* Add an access, for which there is room, to a touch from number `first` on. */
static void add_access(struct luawork *w, uint32_t first, const struct mt_segment_access *a,
                       const struct touch *one)
{
    const struct luawork_bytes bytes = bytes_of(a->kind, a->size);
    uint32_t number = touch_of(w, first, one);
    struct touch *t = &w->touches[number];

    t->site = a->site;
    t->bytes.read += bytes.read;
    t->bytes.written += bytes.written;
    w->accesses[w->n_accesses++] = (struct access){number, a->site, bytes};
}

/* Add the accesses of a segment. One that sets the position of its thread is a touch of its own, and the accesses
 * before and after it are in different touches. */
static void add_accesses(struct luawork *w, const struct mt_segment_access *a, unsigned n)
{
    uint32_t first = w->n_touches;

    for (const struct mt_segment_access *end = a + n; a < end; a++) {
        const struct touch one = {.from = a->offset,
                                  .word = a->word,
                                  .jitted = luacode_is_jitted(&w->code, a->site),
                                  .fetch = a->kind == MT_LOAD && a->size == LUACODE_INSTRUCTION};
        bool alone = one.jitted || one.fetch;

        if (a->kind < MT_LOAD || a->kind > MT_MODIFY)
            continue; /* its site was lost: such a word is never in a batch */
        first = alone ? w->n_touches : first;
        add_access(w, first, a, &one);
        first = alone ? w->n_touches : first;
    }
}

static bool reserve(struct luawork *w, unsigned count)
{
    return array_reserve(&w->touches, &w->touches_room, (size_t)w->n_touches + count, sizeof *w->touches) &&
           array_reserve(&w->accesses, &w->accesses_room, (size_t)w->n_accesses + count, sizeof *w->accesses);
}

/* Know all segments of a batch. */
static bool learn_segments(struct luawork *w, const struct mt_batch *p)
{
    if (!array_grow(&w->segments, &w->segments_room, p->n_segments, sizeof *w->segments))
        return false;
    for (; w->n_segments < p->n_segments; w->n_segments++) {
        const struct mt_segment_word *segment = &p->segments[w->n_segments];
        const struct mt_segment_access *a = &p->accesses[segment->first];
        struct segment *known = &w->segments[w->n_segments];

        *known = (struct segment){.first = w->n_touches,
                                  .jitted = luacode_all_jitted(&w->code, a, segment->count)};
        if (known->jitted)
            continue;
        if (!reserve(w, segment->count))
            return false;
        add_accesses(w, a, segment->count);
        known->n = (uint8_t)(w->n_touches - known->first);
    }
    return true;
}

void luawork_settle(struct luawork *w)
{
    for (uint32_t i = 0; i < w->n_accesses; i++) {
        const struct access *a = &w->accesses[i];
        struct luawork_bytes *site = &w->sites.of[a->site < w->sites.n ? a->site : 0];

        site->read -= w->touches[a->touch].moved * a->bytes.read;
        site->written -= w->touches[a->touch].moved * a->bytes.written;
    }
    for (uint32_t i = 0; i < w->n_touches; i++)
        w->touches[i].moved = 0;
}

/* ---- accesses ------------------------------------------------------------------------------ */

static struct luawork_bytes *sum_at(struct luawork_sums *sums, uint32_t id)
{
    return &sums->of[id < sums->n ? id : 0];
}

/* To what the accesses of a thread to Lua heaps belong now; NULL: to their sites. */
static struct luawork_bytes *owner_now(struct luawork *w, uint16_t thread)
{
    const struct luacode_at at = luacode_now(&w->code, thread);

    if (at.by == LUACODE_PLACE)
        return sum_at(&w->places, at.id);
    if (at.by == LUACODE_STACK)
        return sum_at(&w->stacks, at.id);
    return at.by == LUACODE_SITE ? sum_at(&w->sites, at.id) : NULL;
}

/* What follows the touches of a run. */
struct run {
    struct luawork *work;
    struct luacode_thread *thread;
    struct luawork_bytes *owner; /* of what the thread does to Lua heaps now; NULL: their sites */
    struct luawork_bytes sum;    /* of accesses that belong to the owner, not added yet */
    bool known;                  /* is the owner known? */
};

/* Add the sum to its owner. */
static inline void add_sum(struct run *run)
{
    if (!run->owner)
        return;
    run->owner->read += run->sum.read;
    run->owner->written += run->sum.written;
    run->sum = (struct luawork_bytes){0, 0};
}

/* The thread is at another position. */
static inline void move_to(struct run *run, struct luacode_at at)
{
    add_sum(run);
    run->thread->now = at;
    run->owner = NULL;
    run->known = false;
}

/* Follow the next touch, of a block: does it belong to the position of its thread? */
static inline bool follow(struct run *run, const struct touch *t, const struct mt_place *place)
{
    const struct luacode *c = &run->work->code;
    const struct luacode_block *b = &c->blocks[place->slot];
    uint32_t number;

    if (t->jitted) {
        move_to(run, (struct luacode_at){LUACODE_SITE, t->site});
        return false;
    }
    if (t->fetch && b->held &&
        luacode_place(&c->protos[b->held - 1], place->addr + t->from - b->base, &number))
        move_to(run, (struct luacode_at){LUACODE_PLACE, number});
    return b->lua;
}

/* A segment ran some of which may belong to the position of the thread. */
static void run_segment(struct luawork *w, const struct segment *known, const struct mt_place *places,
                        uint16_t thread)
{
    struct run run = {.work = w, .thread = &w->code.threads[thread]};
    struct touch *t = &w->touches[known->first];

    for (const struct touch *end = t + known->n; t < end; t++) {
        const struct mt_place *place = &places[t->word];

        if (place->slot >= w->code.blocks_room || !follow(&run, t, place))
            continue;
        if (!run.known) {
            run.owner = owner_now(w, thread);
            run.known = true;
        }
        if (!run.owner)
            continue;
        run.sum.read += t->bytes.read;
        run.sum.written += t->bytes.written;
        t->moved++;
    }
    add_sum(&run);
}

static bool take_segment(struct luawork *w, const struct mt_batch *p, const struct mt_step *step,
                         const struct mt_place *places)
{
    const struct segment *known = &w->segments[step->segment];
    const struct mt_segment_word *segment = &p->segments[step->segment];

    if (known->jitted)
        luacode_stay(&w->code, &p->accesses[segment->first], segment->count, places, step->thread);
    else
        run_segment(w, known, places, step->thread);
    return true;
}

/* An access that is an event. */
static void take_access(struct luawork *w, const struct mt_event *e)
{
    const struct luawork_bytes bytes = bytes_of(e->kind, e->size);
    struct luawork_bytes *owner, *site;

    luacode_access(&w->code, e);
    owner = luacode_is_lua(&w->code, e) ? owner_now(w, e->thread) : NULL;
    if (!owner)
        return;
    site = sum_at(&w->sites, e->ref);
    site->read -= bytes.read;
    site->written -= bytes.written;
    owner->read += bytes.read;
    owner->written += bytes.written;
}

static bool take_events(struct luawork *w, const struct mt_batch *p, const struct mt_event *e, size_t n)
{
    (void)p;
    for (const struct mt_event *end = e + n; e < end; e++)
        if (e->kind >= MT_LOAD && e->kind <= MT_MODIFY)
            take_access(w, e);
        else if (!luacode_follow(&w->code, e))
            return false;
    return true;
}

BATCH_WALK(luawork, take_events, take_segment)

bool luawork_feed(struct luawork *w, const struct mt_batch *p)
{
    if (!learn(w))
        return false;
    if (!w->code.follows)
        return take_events(w, p, p->events, p->n_events);
    return learn_segments(w, p) && luawork_walk(w, p);
}

const struct luawork_sums *luawork_sites(const struct luawork *w)
{
    return &w->sites;
}

const struct luawork_sums *luawork_stacks(const struct luawork *w)
{
    return &w->stacks;
}

const struct luawork_sums *luawork_places(const struct luawork *w)
{
    return &w->places;
}
