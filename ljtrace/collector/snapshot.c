/* snapshot.c - number the objects and names of a snapshot, and write their records to the memtrace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/snapshot.h"

void snapshot_clear(struct snapshot *u)
{
    map_clear(&u->number_of);
    map_clear(&u->string_of);
    u->open = false;
}

void snapshot_begin(struct snapshot *u, struct mt_writer *w, const struct mt_snapshot *s)
{
    snapshot_clear(u);
    u->open = true;
    mt_writer_snapshot_begin(w, s);
}

void snapshot_name(struct snapshot *u, struct mt_writer *w, const struct ring_name *r)
{
    if (u->open)
        map_set(&u->string_of, r->key, mt_writer_string(w, r->text.at, r->text.bytes));
}

static uint32_t string_of(const struct snapshot *u, uint64_t key)
{
    uint32_t id;
    return key && map_get(&u->string_of, key, &id) ? id : 0;
}

static uint32_t number_of(const struct snapshot *u, uint64_t addr)
{
    uint32_t number;
    return map_get(&u->number_of, addr, &number) ? number : 0;
}

void snapshot_object(struct snapshot *u, struct mt_writer *w, const struct ring_object *r)
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
    return kind == MT_LINK_UPVALUE || kind == MT_LINK_VALUE || kind == MT_LINK_STACK;
}

static uint32_t index_of(uint8_t kind, uint64_t v)
{
    return kind == MT_LINK_ARRAY ? (uint32_t)v : 0;
}

void snapshot_links(struct snapshot *u, struct mt_writer *w, const struct ring_links *r)
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

void snapshot_end(struct snapshot *u, struct mt_writer *w)
{
    if (u->open)
        mt_writer_snapshot_end(w);
    snapshot_clear(u);
}
