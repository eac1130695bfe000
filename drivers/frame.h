/* frame.h - how a picture of the heap looks: layout, colours, words.
 *
 * Above: allocator, operation, live bytes, extent. Middle: the cells of a heapmap in rows. Below: the
 * legend, and a bar that shows how far the replay is. It knows nothing of replay or files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FRAME_H
#define DRIVERS_FRAME_H

#include "drivers/canvas.h"
#include "drivers/heapmap.h"

struct frame {
    struct canvas canvas;
    int scale;                    /* of the text */
    int left, top, columns, rows; /* of the grid of cells */
    int cell;                     /* pixels of a cell's side */
    uint32_t *shown;              /* colour of each cell as painted */
};

struct frame_facts {
    const char *name;
    uint64_t op, total, used, locked, extent, heap; /* operations, bytes */
};

/* A frame for `extent` bytes of heap. False: out of memory. */
bool frame_open(struct frame *f, int width, int height, uint64_t extent);
uint64_t frame_cells(const struct frame *f);
void frame_paint(struct frame *f, const struct heapmap *m, const struct frame_facts *facts);

#endif
