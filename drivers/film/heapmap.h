/* heapmap.h - the heap as a grid of cells, for pictures.
 *
 * All cells have the same number of bytes. A block that covers many cells is added in constant time, as a difference
 * at its ends; the sums over the cells are computed once per frame. For each cell, the map keeps the bytes in live
 * blocks, the locked bytes, the overhead inside blocks, and the time since it was last allocated, freed, read or
 * written. They also have a mean of a value of their blocks, such as the size. Colours are chosen elsewhere.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_HEAPMAP_H
#define DRIVERS_FILM_HEAPMAP_H

#include "drivers/base/shared.h"

#include <stdbool.h>
#include <stdint.h>

enum heap_layer {
    LAYER_USED,
    LAYER_LOCKED,
    LAYER_OVERHEAD,
    LAYER_VALUE, /* weighted by the values of blocks, 0 to MOST_VALUE */
    LAYER_SITE,  /* bytes of blocks of the first site; then those of the next, and of the others */
    LAYER_FRESH = LAYER_SITE + FILM_SITES + 1,
    LAYER_GONE,
    LAYER_READ,
    LAYER_WRITTEN,
    LAYERS
};

/* The layers from LAYER_FRESH on have the events since the last frame, and cause a glow. */
enum { GLOWS = LAYERS - LAYER_FRESH };

enum { MOST_VALUE = 65535 };

enum { HEAT_FULL = 12 }; /* number of frames until a glow has faded */

struct cell {
    float share[LAYERS];       /* share of the bytes of the cell, 0..1 */
    unsigned char glow[GLOWS]; /* remaining frames of glow, by layer - LAYER_FRESH */
    float value;               /* mean over the bytes in use; not defined if there are none */
    bool seen;                 /* there was a block in the cell */
};

struct heapmap {
    uint64_t cell_bytes, cells;
    bool by_site;           /* are there layers of sites? False after heapmap_open */
    int64_t *whole[LAYERS]; /* change, from cell to cell, of the number of blocks that cover the whole cell */
    int64_t *part[LAYERS];  /* bytes covered in cells at the ends of blocks */
    struct cell *cell;
};

/* Create a map of `extent` bytes with at most `cells` cells. False when out of memory. */
bool heapmap_open(struct heapmap *m, uint64_t extent, uint64_t cells);

/* Add bytes at an offset from the start of the heap, or subtract them (weight -1). In LAYER_VALUE the weight is the value of
 * the block, or minus that. */
void heapmap_add(struct heapmap *m, enum heap_layer layer, uint64_t at, uint64_t bytes, int64_t weight);

/* Clear a layer. */
void heapmap_clear(struct heapmap *m, enum heap_layer layer);

/* Compute all cells for a new frame. Layers that cause a glow are cleared, and glows fade by one frame. */
void heapmap_frame(struct heapmap *m);

#endif
