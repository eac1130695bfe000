/* frame.h - layout, colours and texts of a picture of the heap.
 *
 * At the top: allocator, operation, live and resident bytes, extent. In the middle: the cells of a heapmap, in rows
 * or along a Hilbert curve. At the bottom: the strip with the memory over time so far, and the legend. This does not
 * depend on the replay and does no I/O.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_FRAME_H
#define DRIVERS_FILM_FRAME_H

#include "drivers/film/canvas.h"
#include "drivers/film/heapmap.h"
#include "drivers/film/layout.h"
#include "drivers/film/strip.h"

struct frame {
    struct canvas canvas;
    int scale;                    /* scale of the text */
    int left, top, columns, rows; /* position and size of the grid of cells */
    int cell;                     /* side of a cell in pixels */
    struct spot *spots;           /* position of each cell in the grid */
    uint32_t *shown;              /* painted colour of each cell, and OUTLINED */
    struct strip strip;
};

struct frame_facts {
    const char *name;
    uint64_t op, total, used, resident, locked, extent, heap; /* number of operations, and bytes */
    uint32_t gaps;    /* number of gaps in the heap that are not drawn */
    const char *when; /* the film's time if `op` is not its unit, otherwise "" */
    double done;      /* position in the film's time, 0..1 */
};

/* Create a frame for `extent` bytes of heap. `most` bytes are the full height of the strip. False when out of
 * memory. */
bool frame_open(struct frame *f, int width, int height, uint64_t extent, uint64_t most, enum layout layout);
uint64_t frame_cells(const struct frame *f);
/* The colour of a cell without glow and outline, as 0xRRGGBB. */
uint32_t frame_colour(const struct cell *c);
/* Add a moment to the strip without painting the frame. */
void frame_pass(struct frame *f, const struct frame_facts *facts);
void frame_paint(struct frame *f, const struct heapmap *m, const struct frame_facts *facts);

#endif
