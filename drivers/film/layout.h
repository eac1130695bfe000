/* layout.h - where in a grid the cells of a heap lie.
 *
 * Rows: left to right, lowest address at the top left; growth and holes read naturally. Hilbert: along a
 * space-filling curve, on which cells near in address are near in the picture, so that blocks are patches.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_LAYOUT_H
#define DRIVERS_FILM_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum layout { LAYOUT_ROWS, LAYOUT_HILBERT, LAYOUTS };

/* Names by value, for options. */
extern const char *const layout_names[LAYOUTS];

struct spot {
    uint16_t column, row;
};

/* A table of columns x rows spots, one for each cell in order of address. NULL: out of memory. */
struct spot *layout_make(enum layout layout, int columns, int rows);

#endif
