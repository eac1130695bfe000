/* regions.h - which ranges of addresses the program has mapped itself, and where.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Ranges do not overlap: a new one replaces what was there before, as a mapping does.
 */
#ifndef LJTRACE_COLLECTOR_REGIONS_H
#define LJTRACE_COLLECTOR_REGIONS_H

#include <stdint.h>

#include "memtrace/memtrace.h"

/* The ranges, by rising addresses. All 0 = there are none. */
struct regions {
    struct mt_region *of;
    uint32_t count, room;
};

/* A range is mapped by a call with this stack. One of 0 bytes, or beyond the address space, is ignored. */
void regions_map(struct regions *r, uint64_t start, uint64_t size, uint32_t stack);
/* A range is unmapped: regions end or are cut. */
void regions_unmap(struct regions *r, uint64_t start, uint64_t size);
/* The region that begins here, if there is one, is unmapped. */
void regions_detach(struct regions *r, uint64_t start);
/* The same as regions_map where there is no region yet. */
void regions_fill(struct regions *r, uint64_t start, uint64_t size, uint32_t stack);
/* The caller frees it. */
struct regions regions_copy(const struct regions *r);
void regions_free(struct regions *r);

#endif
