/* unsampled.h - the blocks that a sample by blocks leaves out, and the totals of all blocks.
 *
 * The trace has no events of these blocks, but the writer knows them. So it finds that their frees are no errors, that
 * they are containers of other blocks, and by which of them the program can reach a block at its end. Whether a block is
 * in the sample is decided at its New, and stays so when it is resized or moved, or is inherited by a forked child.
 *
 * They have a map of their own, because the slots of recorded blocks are part of the format and have to be dense.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_UNSAMPLED_H
#define MEMTRACE_WRITE_UNSAMPLED_H

#include "memtrace/blocks/freed_blocks.h"
#include "memtrace/sample.h"

/* What the program did, with recorded blocks and with others. A Resize frees the old size and allocates the new one. */
struct all_blocks {
    uint64_t news, frees, resizes;
    uint64_t allocated, freed; /* bytes */
};

struct unsampled {
    struct mt_sample sample; /* its `every` is 0 if all blocks are recorded: then there is nothing here */
    struct blockmap map;     /* with notes as in the writer's map of recorded blocks */
    struct freed_blocks freed;
    struct all_blocks all;
    uint64_t drawn; /* blocks for which it was decided whether they are in the sample */
};

bool unsampled_init(struct unsampled *u, const struct mt_sample *sample, bool forget_freed);
void unsampled_destroy(struct unsampled *u);

/* Is the next new block left out? */
static inline bool unsampled_leaves_out(struct unsampled *u)
{
    return u->sample.every && !mt_sample_chooses(&u->sample, u->drawn++);
}

/* The map of these blocks, NULL if all blocks are recorded. */
static inline const struct blockmap *unsampled_map(const struct unsampled *u)
{
    return u->sample.every ? &u->map : NULL;
}

/* The slot of the block that contains the byte at addr, or that begins at addr; NO_SLOT = none. */
static inline uint32_t unsampled_find(const struct unsampled *u, uint64_t addr)
{
    return u->sample.every ? blockmap_find(&u->map, addr) : NO_SLOT;
}

static inline uint32_t unsampled_at(const struct unsampled *u, uint64_t addr)
{
    return u->sample.every ? blockmap_at(&u->map, addr) : NO_SLOT;
}

/* Is a free of this address, at which no known block begins, an error that concerns a block that is left out? */
bool unsampled_is_concerned(const struct unsampled *u, uint64_t addr);

/* Add a block. False when out of memory. */
bool unsampled_add(struct unsampled *u, const struct block *b);
/* A block has moved or changed its size; note: its new note. False when out of memory. */
bool unsampled_move(struct unsampled *u, uint32_t slot, uint64_t addr, uint64_t size, uint32_t note);
/* A block has ended. `keep`: its memory is freed memory now. False when out of memory. */
bool unsampled_end(struct unsampled *u, uint32_t slot, bool keep);

#endif
