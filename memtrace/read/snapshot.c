/* snapshot.c - reads SNAPSHOT chunks.
 *
 * The contents of chunks are not trusted. Memory is allocated only for objects and links that were read. All numbers
 * are checked: those of links when the snapshot ends, because a link may refer to an object of a later part; others
 * when they are read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/read/reader_impl.h"
#include "memtrace/format/chunk.h"

#include <stdlib.h>

enum { DEAD = 1, ROOT = 2 }; /* flags of an OBJECT */

static const char s_no_memory[] = "out of memory for a snapshot";

void snapshots_drop(struct snapshots *s)
{
    free(s->objects);
    free(s->links);
    s->objects = NULL;
    s->links = NULL;
    s->objects_room = s->links_room = 0;
    s->open = false;
}

void snapshot_forget(struct mt_snapshot *s)
{
    free((struct mt_object *)s->objects);
    free((struct mt_link *)s->links);
    s->objects = NULL;
    s->links = NULL;
    s->n_objects = s->n_links = 0;
}

void snapshots_free(struct snapshots *s)
{
    snapshots_drop(s);
    for (uint32_t i = 0; i < s->count; i++)
        snapshot_forget(&s->items[i]);
    free(s->items);
}

static const char *take_object(struct snapshots *s, const struct rec_object *r, const struct defs *defs)
{
    bool good = r->type != MT_TYPE_UNKNOWN && (r->type <= MT_TYPE_UDATA || r->type == MT_TYPE_OTHER);
    if (!good || r->flags > (DEAD | ROOT) || r->name >= defs->strings.count)
        return "an object of a snapshot is invalid";
    if (s->part.n_objects >= MAX_SNAPSHOT_ITEMS ||
        !array_reserve(&s->objects, &s->objects_room, s->part.n_objects + 1, sizeof *s->objects))
        return s_no_memory;
    s->objects[s->part.n_objects++] = (struct mt_object){.addr = r->addr,
                                                         .size = r->size,
                                                         .name = (uint32_t)r->name,
                                                         .type = (uint8_t)r->type,
                                                         .dead = (r->flags & DEAD) != 0,
                                                         .root = (r->flags & ROOT) != 0};
    return NULL;
}

static const char *take_link(struct snapshots *s, const struct rec_link *r, const struct defs *defs)
{
    bool is_string = link_has_string(r->kind);
    if (r->kind >= MT_LINK_KINDS || r->weak > 1 || r->name > UINT32_MAX ||
        (is_string && r->name >= defs->strings.count))
        return "a link of a snapshot is invalid";
    if (s->part.n_links >= MAX_SNAPSHOT_ITEMS ||
        !array_reserve(&s->links, &s->links_room, s->part.n_links + 1, sizeof *s->links))
        return s_no_memory;
    s->from += (uint32_t)r->from;
    s->to += (uint32_t)r->to;
    s->links[s->part.n_links++] = (struct mt_link){.from = s->from,
                                                   .to = s->to,
                                                   .name = (uint32_t)r->name,
                                                   .kind = (uint8_t)r->kind,
                                                   .weak = (uint8_t)r->weak};
    return NULL;
}

/* Read the record at the beginning of a part. */
static const char *take_head(struct snapshots *s, const struct rec_snapshot *r, const struct defs *defs,
                             uint64_t event)
{
    if (r->name >= defs->strings.count || r->heap >= defs->heaps.count)
        return "a snapshot has an unknown name or heap";
    if (!s->open && r->objects + r->links == 0) {
        s->part = (struct mt_snapshot){.name = (uint32_t)r->name,
                                       .heap = (uint32_t)r->heap,
                                       .time = r->time,
                                       .total = r->total,
                                       .internal = r->internal,
                                       .event = event};
        s->from = s->to = 0;
        s->open = true;
        return NULL;
    }
    bool joins = s->open && r->objects == s->part.n_objects && r->links == s->part.n_links;
    return joins ? NULL : "a part of a snapshot is missing";
}

static bool links_fit(const struct snapshots *s)
{
    for (uint32_t i = 0; i < s->part.n_links; i++)
        if (s->links[i].from >= s->part.n_objects || s->links[i].to >= s->part.n_objects)
            return false;
    return true;
}

static const char *take_end(struct snapshots *s, const struct rec_snapend *r)
{
    if (r->objects != s->part.n_objects || r->links != s->part.n_links || !links_fit(s))
        return "a snapshot does not add up";
    if (!array_reserve(&s->items, &s->room, s->count + 1, sizeof *s->items))
        return s_no_memory;
    s->part.objects = s->objects;
    s->part.links = s->links;
    s->items[s->count++] = s->part;
    s->objects = NULL;
    s->links = NULL;
    s->objects_room = s->links_room = 0;
    s->open = false;
    return NULL;
}

/* Pass the line that shows a record to the dump. */
#define DUMP(name, id)                                                                                       \
    do {                                                                                                     \
        if (hook->line) {                                                                                    \
            dump_##name(&hook->buffer, id, &r);                                                              \
            hook->line(hook->ctx, hook->buffer.text);                                                        \
        }                                                                                                    \
    } while (0)

static const char *read_object(struct snapshots *s, struct cursor *c, const struct defs *defs,
                               struct record_hook *hook)
{
    struct rec_object r;
    if (!get_object(c, &r))
        return "a snapshot is cut off";
    DUMP(object, s->part.n_objects);
    return take_object(s, &r, defs);
}

static const char *read_link(struct snapshots *s, struct cursor *c, const struct defs *defs,
                             struct record_hook *hook)
{
    struct rec_link r;
    if (!get_link(c, &r))
        return "a snapshot is cut off";
    DUMP(link, s->part.n_links);
    return take_link(s, &r, defs);
}

static const char *read_head(struct snapshots *s, struct cursor *c, const struct defs *defs, uint64_t event,
                             struct record_hook *hook)
{
    struct rec_snapshot r;
    if (cursor_byte(c) != REC_SNAPSHOT || !get_snapshot(c, &r))
        return "a snapshot has no beginning";
    DUMP(snapshot, NO_ID);
    return take_head(s, &r, defs, event);
}

static const char *read_end(struct snapshots *s, struct cursor *c, struct record_hook *hook)
{
    struct rec_snapend r;
    if (!get_snapend(c, &r) || c->p != c->end)
        return "a snapshot is cut off";
    DUMP(snapend, NO_ID);
    return take_end(s, &r);
}

static const char *read_record(struct snapshots *s, struct cursor *c, const struct defs *defs,
                               struct record_hook *hook)
{
    switch (cursor_byte(c)) {
    case REC_OBJECT:
        return read_object(s, c, defs, hook);
    case REC_LINK:
        return read_link(s, c, defs, hook);
    case REC_SNAPEND:
        return read_end(s, c, hook);
    default:
        return "an unknown record in a snapshot";
    }
}

const char *snapshots_take(struct snapshots *s, struct cursor *c, const struct defs *defs, uint64_t event,
                           struct record_hook *hook)
{
    const char *wrong = read_head(s, c, defs, event, hook);
    while (!wrong && c->p < c->end)
        wrong = read_record(s, c, defs, hook);
    if (wrong)
        snapshots_drop(s);
    return wrong;
}
