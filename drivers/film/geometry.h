/* geometry.h - where the parts of a picture are, in pixels.
 *
 * The replay needs it for the number of cells, the painter for all the rest.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_GEOMETRY_H
#define DRIVERS_FILM_GEOMETRY_H

#include "drivers/base/shared.h"

#include <stdint.h>

enum { PICTURE_MARGIN = 8, PICTURE_GAP = 4 };

/* The height of a line of text, by the size of its letters. */
static inline int line_height(int text)
{
    return text * 5 / 4;
}

/* From the top: a line of text, the grid of cells, keys of the strip, the strip, the times below it, the legend. */
struct geometry {
    int width, height;
    int text, line;               /* size of the letters; height of a line of text */
    int labels;                   /* width of the column of addresses, left of the grid; 0 = none */
    int left, top, columns, rows; /* position and size of the grid of cells */
    int cell;                     /* side of a cell */
    int strip_keys, strip_lines;  /* top of the keys of the strip, and number of their lines */
    int strip, strip_height;      /* top of the curves below the grid, and their height */
    int times;                    /* top of the line with the times */
    int legend, legend_lines;     /* top of the legend, and number of its lines */
};

/* A frame with cells for the extent of the film. */
struct geometry geometry_of_frame(const struct film_size *f);
/* A poster: its cells are pixels, in columns of which each is a moment. It has no strip. */
struct geometry geometry_of_poster(const struct film_size *f);
/* Bytes of a cell if so many cells have the extent of the film. */
uint64_t geometry_cell_bytes(uint64_t extent, uint64_t cells);

#endif
