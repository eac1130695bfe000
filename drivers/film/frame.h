/* frame.h - how a picture of the heap looks: layout, colours, words.
 *
 * Above: allocator, operation, live and resident bytes, extent. Middle: the cells of a heapmap in rows or
 * along a Hilbert curve. Below: the strip with the course of memory so far, and the legend. It knows
 * nothing of replay or files.
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
    int scale;                    /* of the text */
    int left, top, columns, rows; /* of the grid of cells */
    int cell;                     /* pixels of a cell's side */
    struct spot *spots;           /* place of each cell in the grid */
    uint32_t *shown;              /* colour of each cell as painted, and OUTLINED */
    struct strip strip;
};

struct frame_facts {
    const char *name;
    uint64_t op, total, used, resident, locked, extent, heap; /* operations, bytes */
    const char *when; /* the film's time where that is not told by op, else "" */
    double done;      /* 0..1: along the film's time */
};

/* A frame for `extent` bytes of heap; `most` bytes are the full height of the strip. False: out of memory. */
bool frame_open(struct frame *f, int width, int height, uint64_t extent, uint64_t most, enum layout layout);
uint64_t frame_cells(const struct frame *f);
/* The colour that a cell has without glow and outline, as 0xRRGGBB. */
uint32_t frame_colour(const struct cell *c);
/* A moment that goes into the strip and is not painted. */
void frame_pass(struct frame *f, const struct frame_facts *facts);
void frame_paint(struct frame *f, const struct heapmap *m, const struct frame_facts *facts);

#endif
