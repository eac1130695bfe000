/* frame.h - a picture of the heap at one moment.
 *
 * At the top: allocator, operation, live and resident bytes, extent. In the middle: the cells, in rows or along a Hilbert
 * curve. At the bottom: the strip with the memory over time so far, and the legend.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_FRAME_H
#define DRIVERS_PAINTER_FRAME_H

#include "drivers/film/geometry.h"
#include "drivers/film/scene.h"
#include "drivers/painter/canvas.h"
#include "drivers/painter/strip.h"

struct frame {
    struct canvas canvas;
    struct geometry at;
    const struct scene_head *head;
    struct cell_spot *spots; /* position of each cell in the grid */
    uint32_t *shown;         /* the look of each cell in the picture */
    struct strip strip;
};

/* False: out of memory. */
bool frame_open(struct frame *f, const struct scene_head *head);
uint64_t frame_cells(const struct frame *f);
/* Add a moment to the strip without painting the frame. */
void frame_pass(struct frame *f, const struct scene *s);
/* Paint a scene, whose cells have these looks. Only cells that changed are painted. */
void frame_paint(struct frame *f, const struct scene *s, const uint32_t *looks);

#endif
