/* opshapes.c - which shape of an ops file an execution of a trace's pattern is; see opshapes.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/opshapes.h"

#include "steve/kernels/grow.h"

_Static_assert(OPS_SHAPE_MOST >= MT_SEGMENT_MOST && OPS_SHAPE_WORDS >= MT_SEGMENT_WORDS &&
                   MT_SEGMENT_WORDS <= 32,
               "a pattern fits into a shape, and its words into a mask");

void opshapes_free(struct opshapes *o)
{
    free(o->latest);
    free(o->others);
}

static uint32_t tell(struct ops_writer *w, const struct mt_packed *p, uint32_t pattern, uint32_t absent)
{
    const struct mt_pattern *all = &p->patterns[pattern];
    const struct mt_pattern_access *a = &p->accesses[all->first];
    struct ops_part parts[OPS_SHAPE_MOST];
    uint8_t word[OPS_SHAPE_WORDS];
    unsigned n = 0, words = 0;

    for (unsigned i = 0; i < all->words; i++) {
        word[i] = (uint8_t)words;
        words += !(absent >> i & 1);
    }
    for (unsigned i = 0; i < all->count; i++)
        if (!(absent >> a[i].word & 1))
            parts[n++] =
                (struct ops_part){a[i].size, a[i].offset, OP_LOAD + (a[i].kind - MT_LOAD), word[a[i].word]};
    return ops_writer_shape(w, parts, n, words);
}

/* One of the others that a pattern has; 0 = there is none. */
static uint32_t find_other(const struct opshapes *o, uint32_t pattern, uint32_t absent)
{
    uint32_t i = o->latest[pattern].next;

    while (i && o->others[i].absent != absent)
        i = o->others[i].next;
    return i;
}

/* Keep the one met last among the others and let a new one take its place. */
static uint32_t add(struct opshapes *o, uint32_t pattern, uint32_t absent, uint32_t shape)
{
    struct opshape *latest = &o->latest[pattern];

    if (!shape)
        return 0;
    if (latest->shape) {
        if (!grow(&o->others, &o->room, o->n + 2, sizeof *o->others))
            return 0;
        o->others[++o->n] = *latest;
        latest->next = (uint32_t)o->n;
    }
    latest->absent = absent;
    return latest->shape = shape;
}

uint32_t opshapes_search(struct opshapes *o, struct ops_writer *w, const struct mt_packed *p,
                         uint32_t pattern, uint32_t absent)
{
    struct opshape *latest, *other, was;

    if (!grow(&o->latest, &o->latest_room, (size_t)pattern + 1, sizeof *o->latest))
        return 0;
    if (!find_other(o, pattern, absent))
        return add(o, pattern, absent, tell(w, p, pattern, absent));
    latest = &o->latest[pattern];
    other = &o->others[find_other(o, pattern, absent)];
    was = *latest;
    latest->absent = other->absent;
    latest->shape = other->shape;
    other->absent = was.absent;
    other->shape = was.shape;
    return latest->shape;
}
