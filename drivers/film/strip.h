/* strip.h - the strip below a picture of the heap: memory over the course of the replay.
 *
 * Live bytes as a filled curve, resident bytes as a line, both to the same scale, and how much more is
 * resident than live as a second line whose full height is 100 %. It grows to the right frame by frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_STRIP_H
#define DRIVERS_FILM_STRIP_H

#include "drivers/film/canvas.h"

struct strip {
    int left, top, width, height; /* pixels */
    int drawn;                    /* columns drawn */
    uint64_t most;                /* bytes at full height */
    int resident, fragmented;     /* heights of the lines where they end, -1: not begun */
};

/* What holds from the last point up to the part `done` (0..1) of the replay. */
void strip_add(struct strip *s, struct canvas *c, double done, uint64_t used, uint64_t resident);
/* Empty it and write what its colours mean. */
void strip_begin(struct strip *s, struct canvas *c, int scale);
/* Resident over live bytes less one, 0..; 0 when nothing is live. */
double strip_fragmentation(uint64_t used, uint64_t resident);

#endif
