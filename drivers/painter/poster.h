/* poster.h - the poster: one picture of the whole replay, with addresses upwards and time to the right.
 *
 * Each column of pixels is the heap at one moment, with the lowest address at the bottom. Growth, persistent holes
 * and blocks that outlive their neighbours are visible.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_POSTER_H
#define DRIVERS_PAINTER_POSTER_H

#include "drivers/film/geometry.h"
#include "drivers/film/scene.h"
#include "drivers/painter/canvas.h"

struct poster {
    struct canvas canvas;
    struct geometry at;
    int drawn; /* number of columns drawn */
};

/* A poster without columns, with its words and its legend. False: out of memory. */
bool poster_open(struct poster *p, const struct scene_head *head);
/* Draw the columns from the end of the last call to the time of the scene, with these looks of the cells. */
void poster_add(struct poster *p, const struct scene *s, const uint32_t *looks);

#endif
