/* segment_shapes.h - finds the shape of an ops file (memtrace/ops.h) for an execution of a segment of a trace.
 *
 * A word of a segment may be in no block, and then its accesses are not operations. Each combination of such absent
 * words is a shape of its own. There are few combinations, so each segment has a list of them. Memory: O(segments).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_OPS_SEGMENT_SHAPES_H
#define MEMTRACE_OPS_SEGMENT_SHAPES_H

#include "memtrace/memtrace.h"
#include "memtrace/ops.h"

struct opshape {
    struct ops_shape_of is;
    uint32_t next; /* next of the other shapes of the segment; 0 = none */
};

struct opshapes {
    struct ops_shape_of *latest; /* by segment: its latest shape */
    uint32_t *others_of;         /* by segment: the first of its other shapes, 0 = none */
    size_t latest_room, others_room;
    struct opshape *others; /* indexes begin with 1; item 0 is not used */
    size_t n, room;
};

void opshapes_free(struct opshapes *o);

/* Make the shape of a segment without the absent words the latest one; a new shape is defined in the writer. False
 * if it already is the latest, or if the writer cannot have it (see ops_writer_shape). */
bool opshapes_find(struct opshapes *o, struct ops_writer *w, const struct mt_batch *p, uint32_t segment,
                   uint32_t absent);

#endif
