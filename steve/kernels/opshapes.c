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
    free(o->items);
    free(o->first);
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

uint32_t opshapes_add(struct opshapes *o, struct ops_writer *w, const struct mt_packed *p, uint32_t pattern,
                      uint32_t absent)
{
    uint32_t shape = tell(w, p, pattern, absent);

    if (!shape || !grow(&o->first, &o->first_room, (size_t)pattern + 1, sizeof *o->first) ||
        !grow(&o->items, &o->room, o->n + 2, sizeof *o->items))
        return 0;
    o->items[++o->n] = (struct opshape){absent, shape, o->first[pattern]};
    o->first[pattern] = (uint32_t)o->n;
    return shape;
}
