/* cells.h - what happened to the blocks of each group in each part of the run, for windows that are chosen later.
 *
 * Operations are divided into bins of equal width, at most CELLS_BINS. A *group* is the blocks with the same stack and
 * thread of their New, the same number of bits of the size they had then, heap and type. A *cell* is a group, the bin
 * in which blocks of it were made, and the bin in which something happened to them: allocations, frees, reads and
 * writes. So sums over cells answer for any window that begins and ends at borders of bins: what was allocated in it,
 * what was live at its end, and also what `--from` and `--to` show, which is restricted to the blocks that were made in it.
 *
 * As in lives.h, a block belongs to the stack of its New. A Resize adds its new size to `allocated` and the old one to
 * `freed`, and makes no block. The bytes of a container, which never count as live, are `freed` as soon as they are
 * `allocated`. Operations are numbered as there.
 *
 * In a sample of the blocks (memtrace/sample.h), numbers of blocks and bytes are estimates; operations are the recorded
 * ones.
 *
 * The width is a power of two. It doubles when there would be too many bins or, to bound the memory, more than `most`
 * cells; neighbouring bins are then merged. Since cells only become more, the final width is the least with which the
 * cells of the whole trace are not too many, in whatever shards it is read. If there are more groups than that, no
 * bins are left to merge, and memory is O(groups).
 *
 * Of each bin, the most live bytes at any moment of it are kept (`bins`), its beginning included, and of each cell what
 * happened in its bin after the first such moment (`after_...`). So what was live at the peak of a window is the sum over
 * the bins before the one with the peak, and over that bin without what came after. Copying all cells at each new maximum
 * would be slow: a maximum only gets a new number, its *epoch*, and what a cell has summed up since an older epoch is void.
 *
 * The type of a block (MT_TYPE) may become known after its New. Its allocation is then moved to the group of that type.
 * The accesses before stay in the group without type. A type that becomes known after a Resize is ignored.
 *
 * A shard does not know the groups of the blocks that live at its beginning. It lists what happens to these by slot
 * (`others`), and cells_merge adds it to their groups. Memory: O(most live blocks + cells + groups).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_CELLS_H
#define STEVE_KERNELS_LIVES_CELLS_H

#include "steve/kernels/base/segment_sums.h"

#define CELLS_BINS 256

struct cells_group {
    uint32_t stack, heap;
    uint16_t thread;
    uint8_t type, size; /* enum mt_type; the bits of the size at the New: 7 for 64 to 127 bytes, 0 for none */
};

struct cell {
    uint32_t group;
    uint16_t made, bin; /* bins of the News and of what happened */
    struct cells_sums sums;
    int64_t after_bytes,
        after_blocks; /* of `sums`, what was made less what was freed since the maximum of the bin */
    uint64_t epoch;   /* of that maximum; after_... are 0 if it is not the bin's */
};

/* The most live bytes in a bin, the number of that maximum (0: the bin has not begun), and the operations up to it. */
struct cells_bin {
    uint64_t most, epoch, at;
};

/* A live block. The last four sums of what happened in `bin` are not yet in a cell. */
struct cells_block {
    uint64_t size; /* estimated, as `count`: the number of blocks that it stands for */
    uint64_t reads, writes, bytes_read, bytes_written; /* recorded ones */
    uint64_t epoch; /* of the maximum of the bin `made` when the block was made */
    uint32_t group, count;
    uint16_t made, bin;
    uint8_t state; /* enum live_state */
    uint8_t resized, container;
};

enum { CELLS_ENDED = 1, CELLS_RESIZED = 2, CELLS_TYPED = 4 };

/* What happened in a shard to a block that was made before it. what: CELLS_... */
struct cells_other {
    uint32_t slot;
    uint16_t bin;
    uint8_t what, type;
    struct cells_sums sums;
    uint64_t epoch; /* of the maximum of the bin when it happened */
};

/* A block that was made in a shard and lives at its end. */
struct cells_survivor {
    struct cells_block block;
    uint32_t slot;
};

struct cells_index {
    uint32_t *at; /* number + 1 of what has the hash; 0: empty */
    size_t room;  /* a power of two, or 0 */
};

struct cells {
    uint64_t operations, width, next; /* next: the operation with which the next bin begins */
    size_t most;
    uint16_t now;                      /* the present bin */
    uint64_t live, epochs;             /* live bytes now; the number of the latest maximum */
    struct cells_bin bins[CELLS_BINS]; /* by number */
    struct cell *cells;
    size_t n_cells, cells_room;
    struct cells_index of_cells, of_groups;
    struct cells_group *groups;
    size_t n_groups, groups_room;
    uint32_t *latest; /* by group: number + 1 of its cell of blocks made in the present bin, 0: not known */
    size_t latest_room;
    struct cells_block *blocks; /* by slot */
    size_t blocks_room;
    struct cells_other *others;
    size_t n_others, others_room;
    struct cells_survivor *survivors;
    size_t n_survivors, survivors_room;
    struct words words;
};

/* What a shard reports. */
struct cells_partial {
    uint64_t operations, width;
    const struct cells_bin *bins; /* CELLS_BINS */
    const struct cell *cells;
    const struct cells_group *groups;
    const struct cells_other *others;
    const struct cells_survivor *survivors;
    size_t n_cells, n_groups, n_others, n_survivors;
};

/* most: number of cells above which bins are merged. */
void cells_init(struct cells *c, size_t most);
void cells_free(struct cells *c);

/* Begin at a shard, after so many operations of `total`. */
void cells_begin_shard(struct cells *c, uint64_t operations, uint64_t total);
/* Enter a block that lives where the shard begins. False when out of memory. */
bool cells_enter(struct cells *c, const struct mt_live_block *live);
/* Feed the next batch. False: out of memory, and the cells can only be freed. */
bool cells_feed(struct cells *c, const struct mt_batch *batch);
/* All events of the trace or shard were fed. False when out of memory. */
bool cells_finish(struct cells *c);
/* List the survivors of a shard, after cells_finish. False when out of memory. */
bool cells_list_survivors(struct cells *c);
/* Add the next shard to the cells of the shards before it. False when out of memory. */
bool cells_merge(struct cells *whole, const struct cells_partial *shard);

#endif
