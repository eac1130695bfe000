/* scene.h - what the process of a replay sends to the program that draws: scenes, in a pipe.
 *
 * The replay must not call a library that allocates memory, because the allocator under test may be the C library's. So
 * it sends only numbers, and the colour of each cell. drivers/painter/ draws them with cairo, in a process of its own and
 * at the same time. Both are from one build. First comes a scene_head, then scenes, each with the looks of its cells.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_SCENE_H
#define DRIVERS_FILM_SCENE_H

#include "drivers/base/shared.h"

#include <stdint.h>

struct scene_head {
    char name[64]; /* of the allocator */
    uint64_t heap, total_ops;
    struct film_size film;
};

enum scene_kind {
    SCENE_SHOWN, /* a frame */
    SCENE_STEP, /* a moment that belongs to a later frame: of the strip of a still, or a column of a poster */
    SCENE_AGAIN /* the frame before, once more; it has no cells */
};

struct scene {
    enum scene_kind kind;
    uint32_t gaps;                               /* number of gaps in the heap that are not drawn */
    uint64_t op, used, resident, locked, extent; /* number of operations, and bytes */
    uint64_t now;                                /* in the film's unit of time */
    double done;                                 /* position in the film's time, 0..1 */
    uint64_t cell_bytes, cells;                  /* bytes of a cell; number of looks that follow */
};

/* The look of a cell: 0xRRGGBB and flags. LOOK_SET: no look is 0. */
enum { LOOK_OUTLINED = 0x1000000, LOOK_SET = 0x2000000, LOOK_COLOUR = 0xffffff };

#endif
