/* geometry.h - where the parts of a picture are, in pixels.
 *
 * The replay needs it for the number of cells, the painter for all the rest.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_GEOMETRY_H
#define DRIVERS_FILM_GEOMETRY_H

#include <stdint.h>

enum { PICTURE_MARGIN = 8 };

struct geometry {
    int width, height;
    int text, line;               /* size of the letters; height of a line of text */
    int left, top, columns, rows; /* position and size of the grid of cells */
    int cell;                     /* side of a cell */
    int strip, strip_height; /* top of the curves below the grid, and their height; keys are one line above */
    int legend;              /* top of the legend */
};

/* A frame with cells for `extent` bytes. */
struct geometry geometry_of_frame(uint32_t width, uint32_t height, uint64_t extent);
/* A poster: its cells are pixels, in columns of which each is a moment. It has no strip. */
struct geometry geometry_of_poster(uint32_t width, uint32_t height);

#endif
