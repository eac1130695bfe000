/* functions.c - functions of accesses and stacks as numbers; see functions.h.
 *
 * The numbers of frames and sites are kept, because they are needed repeatedly. When out of memory, a new function is
 * FUNCTIONS_UNKNOWN.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/locks/functions.h"

#include "memtrace/base/array.h"

#define LUA_KEY ((uint64_t)1 << 62)

bool functions_init(struct functions *f, const struct mt_reader *reader)
{
    memset(f, 0, sizeof *f);
    f->reader = reader;
    return luacode_init(&f->code, reader) && handle_map_init(&f->known);
}

void functions_free(struct functions *f)
{
    luacode_free(&f->code);
    handle_map_free(&f->known);
    free(f->frames);
    free(f->places);
}

size_t functions_count(const struct functions *f)
{
    return f->known.live + FUNCTIONS_FIRST;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static uint32_t number_of(struct functions *f, uint64_t key)
{
    uint32_t i = handle_map_find(&f->known, key);

    if (i == HANDLE_MAP_NONE)
        i = handle_map_add(&f->known, key);
    return i == HANDLE_MAP_NONE ? FUNCTIONS_UNKNOWN : i + FUNCTIONS_FIRST;
}

static uint32_t number_of_lua(struct functions *f, uint32_t file, uint32_t defined)
{
    return number_of(f, LUA_KEY | (uint64_t)file << 30 | (defined & 0x3FFFFFFF));
}

static uint32_t number_of_c(struct functions *f, const struct mt_frame *frame)
{
    if (frame->function)
        return number_of(f, 2 * (uint64_t)frame->function);
    return frame->object ? number_of(f, 2 * (uint64_t)frame->object + 1) : FUNCTIONS_UNKNOWN;
}

static bool is_lua(const struct mt_frame *frame)
{
    return frame->kind == MT_FRAME_LUA || frame->kind == MT_FRAME_LUA_INLINED;
}

uint32_t functions_of_frame(struct functions *f, uint32_t frame)
{
    const struct mt_frame *known = frame ? mt_frame(f->reader, frame) : NULL;
    uint32_t number;

    if (!known || !array_grow(&f->frames, &f->frames_room, (size_t)frame + 1, sizeof *f->frames))
        return FUNCTIONS_UNKNOWN;
    if (f->frames[frame])
        return f->frames[frame] - 1;
    number = is_lua(known) ? number_of_lua(f, known->file, known->defined) : number_of_c(f, known);
    f->frames[frame] = number + 1;
    return number;
}

static bool learn_places(struct functions *f, uint32_t id)
{
    const struct mt_proto *p = mt_proto(f->reader, id);
    uint32_t first = f->code.protos[id].first, number = number_of_lua(f, p->file, p->defined);

    if (!array_grow(&f->places, &f->places_room, (size_t)first + p->count, sizeof *f->places))
        return false;
    for (uint32_t i = 0; i < p->count; i++)
        f->places[first + i] = number;
    return true;
}

bool functions_learn(struct functions *f)
{
    if (!luacode_learn(&f->code))
        return false;
    for (; f->n_protos < f->code.n_protos; f->n_protos++)
        if (!learn_places(f, f->n_protos))
            return false;
    return true;
}

/* ---- accesses ------------------------------------------------------------------------------ */

static uint32_t of_site(struct functions *f, uint32_t site)
{
    const struct mt_site *s = mt_site(f->reader, site);

    return s ? functions_of_frame(f, s->frame) : FUNCTIONS_UNKNOWN;
}

static uint32_t of_stack(struct functions *f, uint32_t stack)
{
    const struct mt_stack *s = stack ? mt_stack(f->reader, stack) : NULL;

    return s ? functions_of_frame(f, s->frame) : FUNCTIONS_UNKNOWN;
}

uint32_t functions_running(struct functions *f, uint16_t thread)
{
    struct luacode_at now = f->code.threads[thread].now;

    if (now.by == LUACODE_PLACE)
        return f->places[now.id];
    if (now.by == LUACODE_STACK)
        return of_stack(f, now.id);
    return now.by == LUACODE_SITE ? of_site(f, now.id) : FUNCTIONS_UNKNOWN;
}

bool functions_collects(const struct functions *f, uint16_t thread)
{
    return f->code.threads[thread].collects != 0;
}

/* Has the code of a site a name in C? */
static bool is_named(const struct functions *f, uint32_t site)
{
    const struct mt_site *s = mt_site(f->reader, site);
    const struct mt_frame *frame = s && s->frame ? mt_frame(f->reader, s->frame) : NULL;

    return frame && frame->function;
}

struct functions_makers functions_of_access(struct functions *f, const struct mt_event *e)
{
    uint32_t lua;

    if (!luacode_is_lua(&f->code, e))
        return (struct functions_makers){.number = {of_site(f, e->ref)}, .n = 1};
    lua = functions_collects(f, e->thread) ? FUNCTIONS_COLLECTOR : functions_running(f, e->thread);
    if (lua == FUNCTIONS_UNKNOWN)
        return (struct functions_makers){.number = {of_site(f, e->ref)}, .n = 1};
    if (!is_named(f, e->ref))
        return (struct functions_makers){.number = {lua}, .n = 1};
    return (struct functions_makers){.number = {lua, of_site(f, e->ref)}, .n = 2};
}
