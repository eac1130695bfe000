/* lua_lines.c - which Lua instruction makes an access; see lua_lines.h.
 *
 * A prototype is known by the handle of its block, and may be defined before or after the New of that block.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lines/lua_lines.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/batch_walk.h"

bool luacode_init(struct luacode *c, const struct mt_reader *reader)
{
    *c = (struct luacode){.reader = reader};
    return handle_map_init(&c->handles);
}

void luacode_free(struct luacode *c)
{
    handle_map_free(&c->handles);
    free(c->protos);
    free(c->proto_of);
    free(c->blocks);
    free(c->threads);
    free(c->jitted);
    free(c->kinds);
}

static bool is_jitted(const struct luacode *c, uint32_t site)
{
    const struct mt_site *s = mt_site(c->reader, site);
    const struct mt_frame *f = s ? mt_frame(c->reader, s->frame) : NULL;

    return f && (f->kind == MT_FRAME_LUA || f->kind == MT_FRAME_LUA_INLINED);
}

static bool learn_sites(struct luacode *c)
{
    uint32_t n = mt_count_sites(c->reader);

    if (!array_grow(&c->jitted, &c->jitted_room, n, sizeof *c->jitted))
        return false;
    for (; c->n_sites < n; c->n_sites++)
        c->follows |= c->jitted[c->n_sites] = is_jitted(c, c->n_sites);
    return true;
}

static bool learn_heaps(struct luacode *c)
{
    uint32_t n = mt_count_heaps(c->reader);

    if (!array_grow(&c->kinds, &c->kinds_room, n, sizeof *c->kinds))
        return false;
    for (; c->n_heaps < n; c->n_heaps++) {
        c->kinds[c->n_heaps] = (uint8_t)mt_heap(c->reader, c->n_heaps)->kind;
        c->follows |= c->kinds[c->n_heaps] == MT_HEAP_LUA;
    }
    return true;
}

/* Of the prototype that has a block's handle the id plus 1, if one has, else 0; `live` as of struct
 * luacode_block. */
static uint32_t held_by(const struct luacode *c, uint64_t live)
{
    uint32_t i = live && c->n_protos ? handle_map_find(&c->handles, live - 1) : HANDLE_MAP_NONE;

    return i == HANDLE_MAP_NONE ? 0 : c->proto_of[i] + 1;
}

/* A prototype's instructions get places. Of several with one handle the last one counts. */
static bool add_proto(struct luacode *c, uint32_t id)
{
    const struct mt_proto *p = mt_proto(c->reader, id);
    uint32_t i = handle_map_find(&c->handles, p->handle);

    if (i == HANDLE_MAP_NONE)
        i = handle_map_add(&c->handles, p->handle);
    if (i == HANDLE_MAP_NONE ||
        !array_grow(&c->proto_of, &c->proto_of_room, (size_t)i + 1, sizeof *c->proto_of) ||
        !array_grow(&c->protos, &c->protos_room, (size_t)id + 1, sizeof *c->protos) ||
        p->count >= LUACODE_NONE - 1 - c->n_places)
        return false;
    c->proto_of[i] = id;
    c->protos[id] = (struct luacode_proto){p->offset, p->count, c->n_places};
    c->n_places += p->count;
    return true;
}

static bool learn_protos(struct luacode *c)
{
    uint32_t n = mt_count_protos(c->reader);

    if (c->n_protos == n)
        return true;
    for (; c->n_protos < n; c->n_protos++)
        if (!add_proto(c, c->n_protos))
            return false;
    for (uint32_t slot = 0; slot < c->blocks_room; slot++)
        c->blocks[slot].held = held_by(c, c->blocks[slot].live) & INT32_MAX;
    return true;
}

static bool learn_threads(struct luacode *c, uint32_t n)
{
    if (!array_reserve(&c->threads, &c->threads_room, n, sizeof *c->threads))
        return false;
    for (; c->n_threads < n; c->n_threads++)
        c->threads[c->n_threads] = c->initial;
    return true;
}

bool luacode_learn(struct luacode *c)
{
    return learn_sites(c) && learn_heaps(c) && learn_protos(c) && learn_threads(c, mt_thread_end(c->reader));
}

bool luacode_set_threads(struct luacode *c, const struct luacode_thread *threads, uint32_t n)
{
    if (!learn_threads(c, n))
        return false;
    if (n)
        memcpy(c->threads, threads, n * sizeof *threads);
    return true;
}

/* What a slot holds: `live` as of struct luacode_block. */
static bool set_block(struct luacode *c, uint32_t slot, uint64_t live, uint64_t base, uint32_t heap)
{
    if (!array_grow(&c->blocks, &c->blocks_room, (size_t)slot + 1, sizeof *c->blocks))
        return false;
    if (!c->follows)
        return true;
    c->blocks[slot] = (struct luacode_block){.live = live,
                                             .base = base,
                                             .held = held_by(c, live) & INT32_MAX,
                                             .lua = heap < c->n_heaps && c->kinds[heap] == MT_HEAP_LUA};
    return true;
}

bool luacode_enter(struct luacode *c, const struct mt_live_block *live)
{
    return set_block(c, live->slot, live->handle + 1, live->addr, live->heap);
}

void luacode_begin_part(struct luacode *c)
{
    c->initial = (struct luacode_thread){
        .now = {LUACODE_BEFORE, 0}, .made = {0, LUACODE_NONE}, .collects = LUACODE_NONE};
    for (uint32_t i = 0; i < c->n_threads; i++)
        c->threads[i] = c->initial;
}

void luacode_lose_place(struct luacode *c)
{
    for (uint32_t i = 0; i < c->n_threads; i++)
        c->threads[i].now = (struct luacode_at){LUACODE_BEFORE, 0};
}

static void note_state(struct luacode_thread *t, const struct mt_event *e)
{
    t->collects = e->how == MT_VM_GC ? e->heap + 1 : 0;
    t->made_then = t->made;
}

bool luacode_follow_all(struct luacode *c, const struct mt_event *e)
{
    struct luacode_thread *t = &c->threads[e->thread];

    if (e->kind == MT_NEW)
        t->made = (struct luacode_made){e->ref, e->heap};
    if (e->kind <= MT_RESIZE)
        return set_block(c, e->slot, e->kind == MT_FREE ? 0 : e->handle + 1, e->addr, e->heap);
    if (e->kind <= MT_MODIFY)
        luacode_access(c, e);
    else if (e->kind == MT_CALL)
        t->now = (struct luacode_at){LUACODE_STACK, e->ref};
    else if (e->kind == MT_STATE)
        note_state(t, e);
    return true;
}

bool luacode_pass(struct luacode *c, const struct mt_event *events, size_t n)
{
    bool ok = true;

    for (size_t i = 0; i < n && ok; i++)
        ok = luacode_follow(c, &events[i]);
    return ok;
}

/* A segment ran. */
static bool pass_segment(struct luacode *c, const struct mt_batch *p, const struct mt_step *step,
                         const struct mt_place *places)
{
    const struct mt_segment_word *segment = &p->segments[step->segment];
    const struct mt_segment_access *a = &p->accesses[segment->first];

    for (const struct mt_segment_access *end = a + segment->count; a < end; a++) {
        struct mt_event e;

        if (places[a->word].slot >= c->blocks_room)
            continue;
        luacode_event(c, a, &places[a->word], step->thread, &e);
        luacode_access(c, &e);
    }
    return true;
}

static bool pass_events(struct luacode *c, const struct mt_batch *p, const struct mt_event *events, size_t n)
{
    (void)p;
    return luacode_pass(c, events, n);
}

BATCH_WALK(luacode, pass_events, pass_segment)

bool luacode_pass_batch(struct luacode *c, const struct mt_batch *p)
{
    return luacode_walk(c, p);
}
