/* segment_shapes.h - which shape of an ops file (memtrace/ops.h) an execution of a trace's segment is.
 *
 * A segment's word may lie in no block, and then its accesses are no operations: each combination of words
 * that do not count is a shape of its own. There are few, so each segment has a list of them.
 * Memory: O(segments).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_OPS_SEGMENT_SHAPES_H
#define MEMTRACE_OPS_SEGMENT_SHAPES_H

#include "memtrace/memtrace.h"
#include "memtrace/ops.h"

struct opshape {
    struct ops_shape_of is;
    uint32_t next; /* of the others of the segment; 0 = none */
};

struct opshapes {
    struct ops_shape_of *latest; /* by segment: the one met last */
    uint32_t *others_of;         /* by segment: the first of its others, 0 = none */
    size_t latest_room, others_room;
    struct opshape *others; /* from 1; item 0 is not used */
    size_t n, room;
};

void opshapes_free(struct opshapes *o);

/* Make the shape of a segment without the absent words the latest; a new one is told to the writer. False if
 * it is that already, or there is none, see ops_writer_shape. */
bool opshapes_find(struct opshapes *o, struct ops_writer *w, const struct mt_batch *p, uint32_t segment,
                   uint32_t absent);

#endif
