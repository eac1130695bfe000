/* poster.h - one picture of the whole replay: address upwards, time to the right.
 *
 * Each column of pixels is the heap at one moment, lowest address at the bottom: growth, holes that stay, and
 * blocks that outlive their neighbours are seen at a glance. It knows nothing of replay or files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_POSTER_H
#define DRIVERS_FILM_POSTER_H

#include "drivers/film/canvas.h"
#include "drivers/film/heapmap.h"

#include <stdbool.h>

struct poster {
    struct canvas canvas;
    int scale, left, top, columns, rows; /* of the plot, pixels */
    int drawn;                           /* columns */
};

/* An empty poster. False: out of memory. */
bool poster_open(struct poster *p, int width, int height);
/* Columns that a poster of this width has. */
int poster_columns(int width);
/* The heap as in the map (of p->rows cells) is that from the last call up to the part `done` (0..1) of time.
 */
void poster_add(struct poster *p, const struct heapmap *m, double done);
/* Write what it shows: `extent` bytes upwards, so much `time` to the right. */
void poster_words(struct poster *p, const char *name, uint64_t extent, const char *time);

#endif
