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

void universe_name(struct universe *u, struct mt_writer *w, uint64_t key, const char *text, size_t size)
{
    if (u->open)
        map_set(&u->string_of, key, mt_writer_string(w, text, size));
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

void universe_object(struct universe *u, struct mt_writer *w, const uint64_t word[3], uint32_t what)
{
    struct mt_object o = {.addr = word[0],
                          .size = word[1],
                          .name = string_of(u, word[2]),
                          .type = (uint8_t)what,
                          .dead = what >> 8 & 1,
                          .root = what >> 9 & 1};
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

void universe_links(struct universe *u, struct mt_writer *w, uint64_t from, const uint64_t *pair, size_t n)
{
    uint32_t number = u->open ? number_of(u, from) : 0;
    for (size_t i = 0; number && i + 1 < n; i += 2) {
        uint32_t to = number_of(u, pair[i]);
        struct mt_link l = {
            .from = number - 1, .to = to - 1, .kind = pair[i + 1] & 0x7f, .weak = pair[i + 1] >> 7 & 1};
        l.name = is_named(l.kind) ? string_of(u, pair[i + 1] >> 8) : index_of(l.kind, pair[i + 1] >> 8);
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
