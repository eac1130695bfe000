/* intervals.h - a set of address ranges that do not overlap.
 *
 * `steve check` puts every live block in, to find those that overlap. It is written apart from the block map
 * of the trace library on purpose: a checker that shares the map would share its errors. A treap ordered by
 * address, whose nodes are numbered by the caller (slots of live blocks). Expected O(log n) for each call.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_INTERVALS_H
#define STEVE_KERNELS_BASE_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERVALS_NONE UINT32_MAX

struct interval {
    uint64_t start, last; /* both inside */
    uint32_t left, right, weight;
    bool present;
};

struct intervals {
    struct interval *nodes; /* by number */
    size_t room;
    uint32_t root;
    uint32_t random;
};

void intervals_init(struct intervals *s);
void intervals_free(struct intervals *s);

/* A node that overlaps [start, last], or INTERVALS_NONE. */
uint32_t intervals_overlap(const struct intervals *s, uint64_t start, uint64_t last);
/* Put in range number `node`, which must not be present nor overlap any. False: out of memory. */
bool intervals_add(struct intervals *s, uint32_t node, uint64_t start, uint64_t last);
/* Take out range number `node` if it is present. */
void intervals_remove(struct intervals *s, uint32_t node);

#endif
