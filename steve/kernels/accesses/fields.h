/* fields.h - which bytes of the blocks of an allocation stack are read and written, and how often.
 *
 * Stacks are put into groups. Each group has a map of cells, each for the same 2^shift bytes of every block:
 * loads, stores and modifications that touched any byte of the cell. A cell is the smallest power of two of
 * which FIELDS_CELLS make up the group's largest block (one byte for blocks of up to 4096 bytes), so memory
 * is O(groups + live blocks) however large the blocks are. An access beyond the end of its block counts up to
 * the end.
 *
 * At the beginning of a shard, the stacks of the blocks that live there come from a survey:
 * steve/kernels/base/survey.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_FIELDS_H
#define STEVE_KERNELS_ACCESSES_FIELDS_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/sums.h"

#define FIELDS_CELLS 4096

struct fields_map {
    struct fields_cell *cells;
    size_t n;
    uint64_t blocks; /* made */
    uint8_t shift;
};

struct fields_block {
    uint64_t size;
    uint32_t group; /* + 1; 0 = no block here */
};

struct fields {
    const uint32_t *group_of; /* by stack */
    size_t n_stacks;
    struct fields_map *maps; /* by group */
    size_t n_maps;
    struct fields_block *blocks; /* by slot */
    size_t room;
};

/* group_of: for each of n_stacks stacks the number of its map, below n_groups, or UINT32_MAX for one that is
 * left out; stays the caller's. largest: for each group the most bytes that a block of it ever has. False:
 * out of memory. */
bool fields_init(struct fields *f, const uint32_t *group_of, size_t n_stacks, const uint64_t *largest,
                 size_t n_groups);
void fields_free(struct fields *f);
/* In a part, before anything is fed: a block lives; group: its group + 1, 0 for none. False: out of memory.
 */
bool fields_enter(struct fields *f, const struct mt_live_block *live, uint32_t group);
bool fields_feed(struct fields *f, const struct mt_event *events, size_t n);

#endif
