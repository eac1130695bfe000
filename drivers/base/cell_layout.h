/* cell_layout.h - assigns positions in a grid to the cells of a heap.
 *
 * Rows: left to right, lowest address at the top left. Growth and holes are easy to see. Hilbert: along a
 * space-filling curve. Cells with close addresses are close in the picture, so that blocks are compact areas.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_CELL_LAYOUT_H
#define DRIVERS_BASE_CELL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum cell_layout { CELLS_ROWS, CELLS_HILBERT, CELL_LAYOUTS };

/* Names by value, for options. */
extern const char *const cell_layout_names[CELL_LAYOUTS];

struct cell_spot {
    uint16_t column, row;
};

/* A table of columns x rows positions, one per cell, in the order of addresses. NULL when out of memory. */
struct cell_spot *cell_layout_make(enum cell_layout layout, int columns, int rows);

#endif
