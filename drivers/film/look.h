/* look.h - the colours of the cells of a heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_LOOK_H
#define DRIVERS_FILM_LOOK_H

#include "drivers/base/shared.h"
#include "drivers/film/heapmap.h"

/* What colours mean in a scene. The value of a block is, by age, the time of its beginning, and by size, from value_of_size. */
struct look_by {
    enum film_colour by;
    float now; /* FILM_AGE: the time of the scene, as a value */
};

/* Value of a time of the film, of 0..1. It is not 0. */
uint32_t value_of_time(double done);
uint32_t value_of_size(uint64_t bytes);

/* The look (scene.h) of a cell of this many pixels a side in a frame, with its glow; locked bytes give it an outline or, if
 * it is too small for one, their colour. By age, size and site nothing glows. */
uint32_t look_of_cell(const struct cell *c, struct look_by by, int side);
/* In a poster, where nothing glows. */
uint32_t look_in_poster(const struct cell *c, struct look_by by);

#endif
