/* sharing.h - memory that several threads access, block by block and line by line.
 *
 * Counted for the stack that made the accessed block: its blocks, those that several threads accessed, and
 * accesses. Of each line of 64 bytes sharing_lines.h keeps what each thread does to it, and decides whether it
 * is falsely shared.
 *
 * A trace may be read in parts: sharing_shards.h.
 *
 * Memory O(live blocks + lines accessed + stacks), and more for each line that several threads access.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_SHARING_H
#define STEVE_KERNELS_ACCESSES_SHARING_H

#include "memtrace/memtrace.h"
#include "steve/kernels/accesses/sharing_lines.h"
#include "steve/kernels/base/handle_map.h"
#include "steve/kernels/base/sums.h"

struct sharing_block {
    uint64_t size;
    uint32_t stack;
    uint16_t thread; /* that accessed it first; 0 = none yet. Of an earlier one: first in this part */
    bool live, shared;
    bool earlier;                     /* made before this part of a trace */
    uint64_t first_size, shared_size; /* its bytes when it was accessed first in it, and when shared there */
};

struct sharing {
    struct sharing_row *rows;
    size_t rows_room;
    struct sharing_block *blocks; /* by slot */
    size_t blocks_room;
    struct sharinglines lines;
    bool part;                    /* set by the caller before anything is fed */
    struct sharing_piece *pieces; /* of a part */
    size_t n_pieces, pieces_room;
};

bool sharing_init(struct sharing *s); /* false: out of memory; so below */
void sharing_free(struct sharing *s);
bool sharing_feed(struct sharing *s, const struct mt_event *events, size_t n);
/* All was fed, or added: decide on all lines. */
bool sharing_finish(struct sharing *s);

#endif
