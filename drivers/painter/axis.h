/* axis.h - ticks of time below a picture of the heap, and of addresses at its left.
 *
 * Ticks are at round numbers, three to ten of them where there is room. Addresses are offsets from the start of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_AXIS_H
#define DRIVERS_PAINTER_AXIS_H

#include "drivers/film/geometry.h"
#include "drivers/painter/canvas.h"

enum { MOST_TICKS = 10 };

/* The distance of ticks, of which at most `most` are in `length`: 1, 2 or 5 times a power of ten, or a power of two. */
uint64_t axis_step(uint64_t length, int most, bool of_bytes);

/* The times of the film, in the line at->times, below the columns of the grid. */
void axis_times(struct canvas *c, const struct geometry *at, const struct film_size *f);

/* The addresses of the rows of cells, from the top or, in a poster, from the bottom. Where a gap of the heap is left out,
 * the first address after it has a tick. */
void axis_addresses(struct canvas *c, const struct geometry *at, const struct film_size *f, bool upwards);

#endif
