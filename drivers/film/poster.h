/* poster.h - the poster: one picture of the whole replay, with addresses upwards and time to the right.
 *
 * Each column of pixels is the heap at one moment, with the lowest address at the bottom. Growth, persistent holes
 * and blocks that outlive their neighbours are visible.
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
    int drawn;                           /* number of columns drawn */
};

/* Create an empty poster. False when out of memory. */
bool poster_open(struct poster *p, int width, int height);
/* Number of columns of a poster of this width. */
int poster_columns(int width);
/* Draw the columns from the end of the last call to the time `done` (0..1), with the current contents of the map
 * (of p->rows cells). */
void poster_add(struct poster *p, const struct heapmap *m, double done);
/* Write the labels: `extent` bytes upwards, `time` to the right. */
void poster_words(struct poster *p, const char *name, uint64_t extent, const char *time);

#endif
