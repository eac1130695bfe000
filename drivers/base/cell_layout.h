/* layout.h - assigns positions in a grid to the cells of a heap.
 *
 * Rows: left to right, lowest address at the top left. Growth and holes are easy to see. Hilbert: along a
 * space-filling curve. Cells with close addresses are close in the picture, so that blocks are compact areas.
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

/* A table of columns x rows positions, one per cell, in the order of addresses. NULL when out of memory. */
struct spot *layout_make(enum layout layout, int columns, int rows);

#endif
