/* segment_shapes.c - finds the shape of an ops file for an execution of a segment of a trace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "memtrace/ops/segment_shapes.h"

#include "memtrace/base/array.h"

_Static_assert(OPS_SHAPE_MOST >= MT_SEGMENT_MOST && OPS_SHAPE_WORDS >= MT_SEGMENT_WORDS &&
                   MT_SEGMENT_WORDS <= 32,
               "a segment fits into a shape, and its words into a mask");

void opshapes_free(struct opshapes *o)
{
    free(o->latest);
    free(o->others_of);
    free(o->others);
}

static uint32_t define_shape(struct ops_writer *w, const struct mt_batch *p, uint32_t segment,
                             uint32_t absent)
{
    const struct mt_segment_word *all = &p->segments[segment];
    const struct mt_segment_access *a = &p->accesses[all->first];
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

/* Find one of the other shapes of a segment; 0 if there is none. */
static uint32_t find_other(const struct opshapes *o, uint32_t segment, uint32_t absent)
{
    uint32_t i = o->others_of[segment];

    while (i && o->others[i].is.absent != absent)
        i = o->others[i].next;
    return i;
}

/* Move the latest shape of a segment to its other shapes. */
static bool keep(struct opshapes *o, uint32_t segment)
{
    if (!o->latest[segment].shape)
        return true;
    if (!array_grow(&o->others, &o->room, o->n + 2, sizeof *o->others))
        return false;
    o->others[++o->n] = (struct opshape){o->latest[segment], o->others_of[segment]};
    o->others_of[segment] = (uint32_t)o->n;
    return true;
}

static bool add(struct opshapes *o, uint32_t segment, struct ops_shape_of new)
{
    if (!new.shape || !keep(o, segment))
        return false;
    o->latest[segment] = new;
    return true;
}

bool opshapes_find(struct opshapes *o, struct ops_writer *w, const struct mt_batch *p, uint32_t segment,
                   uint32_t absent)
{
    struct ops_shape_of was;
    uint32_t other;

    if (!array_grow(&o->latest, &o->latest_room, (size_t)segment + 1, sizeof *o->latest) ||
        !array_grow(&o->others_of, &o->others_room, (size_t)segment + 1, sizeof *o->others_of))
        return false;
    was = o->latest[segment];
    if (was.shape && was.absent == absent)
        return false;
    other = find_other(o, segment, absent);
    if (!other)
        return add(o, segment, (struct ops_shape_of){define_shape(w, p, segment, absent), absent});
    o->latest[segment] = o->others[other].is;
    o->others[other].is = was;
    return true;
}
