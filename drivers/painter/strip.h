/* strip.h - the strip below a picture of the heap: memory over the time of the replay.
 *
 * Live bytes are a filled curve and resident bytes a line, both at the same scale. A second line shows resident over
 * live bytes, less 1; its full height is 100%. The strip grows to the right frame by frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_STRIP_H
#define DRIVERS_PAINTER_STRIP_H

#include "drivers/film/geometry.h"
#include "drivers/painter/canvas.h"

struct strip {
    int left, top, width, height; /* pixels */
    int drawn;                    /* number of columns drawn */
    uint64_t most;                /* bytes at full height */
    int resident, fragmented;     /* last heights of the lines, -1 = none yet */
};

/* Draw the values from the last position to the position `done` (0..1) of the replay. */
void strip_add(struct strip *s, struct canvas *c, double done, uint64_t used, uint64_t resident);
/* An empty strip, with its legend. */
void strip_begin(struct strip *s, struct canvas *c, const struct geometry *g, uint64_t most);
/* Resident over live bytes less 1, at least 0; 0 if nothing is live. */
double strip_fragmentation(uint64_t used, uint64_t resident);

#endif
