/* places.h - where the live blocks are at one moment of a replay, by pages.
 *
 * A page that has a live block cannot be returned to the system, whatever else is on it. The moment may be chosen: it is
 * the number of N, F and R operations before it. Otherwise it is the worst one, at which the pages with live blocks
 * have the most bytes more than these blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_MEASURE_PLACES_H
#define DRIVERS_MEASURE_PLACES_H

#include <stdint.h>

#include "drivers/run/engine.h"

enum { PLACES_PAGE = 4096 };

/* What the file begins with. All numbers of the file have 8 bytes in the byte order of the machine. After the head come
 * the blocks, then the pages. */
struct places_head {
    uint64_t operations; /* done so far: N, F and R */
    uint64_t blocks, pages;
};

/* A live block. */
struct places_block {
    uint64_t born;   /* the number of the operation that made it, from 0: of N, F and R */
    uint64_t offset; /* of its first byte, from the start of the heap; UINT64_MAX: it has no memory */
    uint64_t size;   /* as requested */
};

/* A page with live blocks. */
struct places_page {
    uint64_t number; /* offset / PLACES_PAGE */
    uint64_t ended;  /* how many blocks were on it that are freed, or resized into another place */
    uint64_t lived;  /* the sum of their lives there, in operations */
};

/* Replay. With job.places_at = 0, find the worst moment: shared->places_at is its number of operations. Otherwise write
 * the file to FRAMES_FD after that many operations. */
void places_run(struct engine *e);

#endif
