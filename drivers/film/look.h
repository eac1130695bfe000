/* look.h - the colours of the cells of a heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_LOOK_H
#define DRIVERS_FILM_LOOK_H

#include "drivers/film/heapmap.h"

/* The look (scene.h) of a cell of this many pixels a side in a frame, with its glow; locked bytes give it an outline or, if
 * it is too small for one, their colour. */
uint32_t look_of_cell(const struct cell *c, int side);
/* In a poster, where nothing glows. */
uint32_t look_in_poster(const struct cell *c);

#endif
