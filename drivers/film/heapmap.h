/* heapmap.h - the heap as a grid of cells, for pictures.
 *
 * Each cell stands for the same number of bytes. A block that covers many cells is added in constant time,
 * as a difference between its ends; the sums over the cells are made once per frame. Kept for each cell:
 * bytes in live blocks, locked bytes, overhead inside blocks, and how long ago it was last allocated,
 * freed, read or written in. It knows nothing of colours.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_HEAPMAP_H
#define DRIVERS_FILM_HEAPMAP_H

#include <stdbool.h>
#include <stdint.h>

enum heap_layer {
    LAYER_USED,
    LAYER_LOCKED,
    LAYER_OVERHEAD,
    LAYER_FRESH,
    LAYER_GONE,
    LAYER_READ,
    LAYER_WRITTEN,
    LAYERS
};

/* The layers from LAYER_FRESH on hold what happened since the last frame, and leave a glow. */
enum { GLOWS = LAYERS - LAYER_FRESH };

enum { HEAT_FULL = 12 }; /* frames until a glow has faded */

struct cell {
    float share[LAYERS];       /* 0..1 of the cell's bytes */
    unsigned char glow[GLOWS]; /* frames of glow left, by layer less LAYER_FRESH */
    bool seen;                 /* there has been a block */
};

struct heapmap {
    uint64_t cell_bytes, cells;
    int64_t *whole[LAYERS]; /* change in the number of blocks that cover all of the cell, cell to cell */
    int64_t *part[LAYERS];  /* bytes covered in cells at the ends of blocks */
    struct cell *cell;
};

/* A map of `extent` bytes in `cells` cells at most. False: out of memory. */
bool heapmap_open(struct heapmap *m, uint64_t extent, uint64_t cells);

/* Add (sign 1) or take away (sign -1) bytes at an offset from the heap's start. */
void heapmap_add(struct heapmap *m, enum heap_layer layer, uint64_t at, uint64_t bytes, int sign);

/* Take everything out of a layer. */
void heapmap_clear(struct heapmap *m, enum heap_layer layer);

/* Work out all cells for a new frame; the layers that leave a glow begin anew, glows get older. */
void heapmap_frame(struct heapmap *m);

/* Let all glows end at once: for a picture that stands alone. */
void heapmap_cool(struct heapmap *m);

#endif
