/* islands.h - the parts of the heap that have blocks, without the large gaps between them.
 *
 * Many allocators place blocks in a few parts of the heap that are far from each other. Pictures leave out the gaps, so
 * that the parts are large enough to be seen.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_ISLANDS_H
#define DRIVERS_BASE_ISLANDS_H

#include <stdint.h>

enum { MOST_ISLANDS = 64 };
#define LEAST_GAP ((uint64_t)256 << 10) /* bytes; smaller gaps belong to an island */

/* Offsets from the start of the heap, ascending. Zeroed at the start. */
struct islands {
    uint32_t count;
    struct island {
        uint64_t from, to;
    } of[MOST_ISLANDS];
};

/* Add bytes from..to, which are in one island afterwards. If there are too many islands, the two with the least gap
 * become one. */
void islands_add(struct islands *s, uint64_t from, uint64_t to);
/* Round the ends of islands at gaps to whole pages, so that headers before and after blocks are in them. */
void islands_round(struct islands *s);
/* Sum of the sizes. */
uint64_t islands_bytes(const struct islands *s);
/* The distance of an offset from the start if the islands lay next to each other; UINT64_MAX if it is in none. */
uint64_t islands_place(const struct islands *s, uint64_t offset);

#endif
