/* snapshot.c - see snapshot.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/snapshot.h"

void universe_clear(struct universe *u)
{
    map_clear(&u->number_of);
    map_clear(&u->string_of);
    u->open = false;
}

void universe_begin(struct universe *u, struct mt_writer *w, const struct mt_snapshot *s)
{
    universe_clear(u);
    u->open = true;
    mt_writer_snapshot_begin(w, s);
}

void universe_name(struct universe *u, struct mt_writer *w, const struct ring_name *r)
{
    if (u->open)
        map_set(&u->string_of, r->key, mt_writer_string(w, r->text.at, r->text.bytes));
}

static uint32_t string_of(const struct universe *u, uint64_t key)
{
    uint32_t id;
    return key && map_get(&u->string_of, key, &id) ? id : 0;
}

static uint32_t number_of(const struct universe *u, uint64_t addr)
{
    uint32_t number;
    return map_get(&u->number_of, addr, &number) ? number : 0;
}

void universe_object(struct universe *u, struct mt_writer *w, const struct ring_object *r)
{
    struct mt_object o = {.addr = r->addr,
                          .size = r->size,
                          .name = string_of(u, r->name),
                          .type = (uint8_t)r->flags,
                          .dead = (r->flags & RAW_OBJECT_DEAD) != 0,
                          .root = (r->flags & RAW_OBJECT_ROOT) != 0};
    if (u->open && !number_of(u, o.addr))
        map_set(&u->number_of, o.addr, mt_writer_object(w, &o) + 1);
}

static bool is_named(uint8_t kind)
{
    return kind == MT_LINK_UPVALUE || kind == MT_LINK_VALUE;
}

static uint32_t index_of(uint8_t kind, uint64_t v)
{
    return kind == MT_LINK_ARRAY ? (uint32_t)v : 0;
}

void universe_links(struct universe *u, struct mt_writer *w, const struct ring_links *r)
{
    uint32_t from = u->open ? number_of(u, r->from) : 0;
    for (uint32_t i = 0; from && i < r->links_count; i++) {
        const uint64_t what = r->links[i].what, name = raw_link_name(what);
        uint32_t to = number_of(u, r->links[i].to);
        struct mt_link l = {
            .from = from - 1, .to = to - 1, .kind = raw_link_kind(what), .weak = raw_link_is_weak(what)};
        l.name = is_named(l.kind) ? string_of(u, name) : index_of(l.kind, name);
        if (to)
            mt_writer_link(w, &l);
    }
}

void universe_end(struct universe *u, struct mt_writer *w)
{
    if (u->open)
        mt_writer_snapshot_end(w);
    universe_clear(u);
}
