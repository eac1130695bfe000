/* luacode.c - which Lua instruction makes an access; see luacode.h.
 *
 * A prototype is known by the handle of its block, and may be defined before or after the New of that block.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/luacode.h"

#include "steve/kernels/grow.h"

bool luacode_init(struct luacode *c, const struct mt_reader *reader)
{
    *c = (struct luacode){.reader = reader};
    c->threads = calloc(UINT16_MAX + 1, sizeof *c->threads);
    return livemap_init(&c->handles) && c->threads;
}

void luacode_free(struct luacode *c)
{
    livemap_free(&c->handles);
    free(c->protos);
    free(c->proto_of);
    free(c->live);
    free(c->blocks);
    free(c->threads);
    free(c->jitted);
    free(c->lua);
}

static bool is_jitted(const struct luacode *c, uint32_t site)
{
    const struct mt_site *s = mt_site(c->reader, site);
    const struct mt_frame *f = s ? mt_frame(c->reader, s->frame) : NULL;

    return f && (f->kind == MT_FRAME_LUA || f->kind == MT_FRAME_INLINED);
}

static bool learn_sites(struct luacode *c)
{
    uint32_t n = mt_count_sites(c->reader);

    if (!grow(&c->jitted, &c->jitted_room, n, sizeof *c->jitted))
        return false;
    for (; c->n_sites < n; c->n_sites++)
        c->jitted[c->n_sites] = is_jitted(c, c->n_sites);
    return true;
}

static bool learn_heaps(struct luacode *c)
{
    uint32_t n = mt_count_heaps(c->reader);

    if (!grow(&c->lua, &c->lua_room, n, sizeof *c->lua))
        return false;
    for (uint32_t i = 0; i < n; i++)
        c->lua[i] = mt_heap(c->reader, i)->kind == MT_HEAP_LUA;
    return true;
}

/* The block of a slot holds the prototype that has its handle, if one has. */
static void find_held(struct luacode *c, uint32_t slot)
{
    uint32_t i = c->live[slot] ? livemap_find(&c->handles, c->live[slot] - 1) : LIVEMAP_NONE;

    c->blocks[slot].held = i == LIVEMAP_NONE ? 0 : c->proto_of[i] + 1;
}

/* A prototype's instructions get places. Of several with one handle the last one counts. */
static bool add_proto(struct luacode *c, uint32_t id)
{
    const struct mt_proto *p = mt_proto(c->reader, id);
    uint32_t i = livemap_find(&c->handles, p->handle);

    if (i == LIVEMAP_NONE)
        i = livemap_add(&c->handles, p->handle);
    if (i == LIVEMAP_NONE || !grow(&c->proto_of, &c->proto_of_room, (size_t)i + 1, sizeof *c->proto_of) ||
        !grow(&c->protos, &c->protos_room, (size_t)id + 1, sizeof *c->protos) ||
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
    for (uint32_t slot = 0; slot < c->live_room; slot++)
        find_held(c, slot);
    return true;
}

bool luacode_learn(struct luacode *c)
{
    return learn_sites(c) && learn_heaps(c) && learn_protos(c);
}

/* A New, Free or Resize. */
static bool set_live(struct luacode *c, const struct mt_event *e)
{
    if (!grow(&c->live, &c->live_room, (size_t)e->slot + 1, sizeof *c->live) ||
        !grow(&c->blocks, &c->blocks_room, c->live_room, sizeof *c->blocks))
        return false;
    c->blocks[e->slot].base = e->addr;
    c->blocks[e->slot].heap = e->heap;
    c->live[e->slot] = e->kind == MT_FREE ? 0 : e->handle + 1;
    find_held(c, e->slot);
    return true;
}

/* A virtual machine goes over to another state: does the collector work on behalf of a trace? */
static void follow_state(struct luacode_thread *t, const struct mt_event *e)
{
    bool on_trace = t->now.by == LUACODE_SITE || t->now.by == LUACODE_STACK;

    if (t->before.by != LUACODE_OWN && e->how != MT_VM_GC) {
        t->now = t->before;
        t->before.by = LUACODE_OWN;
    } else if (e->how == MT_VM_GC && on_trace && t->before.by == LUACODE_OWN && t->heap == e->heap) {
        t->before = t->now;
        t->now = (struct luacode_at){LUACODE_STACK, t->made};
    }
}

static void note_made(struct luacode *c, const struct mt_event *e)
{
    c->threads[e->thread].made = e->ref;
    c->threads[e->thread].heap = e->heap;
}

bool luacode_follow(struct luacode *c, const struct mt_event *e)
{
    if (e->kind == MT_NEW)
        note_made(c, e);
    if (e->kind <= MT_RESIZE)
        return set_live(c, e);
    if (e->kind <= MT_MODIFY)
        luacode_access(c, e);
    else if (e->kind == MT_CALL)
        c->threads[e->thread].now = (struct luacode_at){LUACODE_STACK, e->ref};
    else if (e->kind == MT_STATE)
        follow_state(&c->threads[e->thread], e);
    return true;
}

bool luacode_pass(struct luacode *c, const struct mt_event *events, size_t n)
{
    bool ok = true;

    for (size_t i = 0; i < n && ok; i++)
        ok = luacode_follow(c, &events[i]);
    return ok;
}
