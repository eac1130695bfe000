/* opshapes.h - which shape of an ops file (memtrace/ops.h) an execution of a trace's pattern is.
 *
 * A pattern's word may lie in no block, and then its accesses are no operations: each combination of words
 * that do not count is a shape of its own. There are few, so that they stand in a list for each pattern.
 * Memory: O(patterns).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_OPSHAPES_H
#define STEVE_OPSHAPES_H

#include "memtrace/memtrace.h"
#include "memtrace/ops.h"

struct opshape {
    uint32_t absent; /* a bit for each word that does not count */
    uint32_t shape;  /* as of ops_writer_shape */
    uint32_t next;   /* of the others of the pattern; 0 = none */
};

struct opshapes {
    struct opshape *latest; /* by pattern: the one met last; shape 0 = none */
    size_t latest_room;
    struct opshape *others; /* from 1; item 0 is not used */
    size_t n, room;
};

void opshapes_free(struct opshapes *o);

/* The shape of a pattern without the absent words, of which it has others; a new one is told to the writer. 0
 * if there is none, see ops_writer_shape. */
uint32_t opshapes_search(struct opshapes *o, struct ops_writer *w, const struct mt_packed *p,
                         uint32_t pattern, uint32_t absent);

static inline uint32_t opshapes_find(struct opshapes *o, struct ops_writer *w, const struct mt_packed *p,
                                     uint32_t pattern, uint32_t absent)
{
    if (pattern < o->latest_room && o->latest[pattern].shape && o->latest[pattern].absent == absent)
        return o->latest[pattern].shape;
    return opshapes_search(o, w, p, pattern, absent);
}

#endif
