/* lives.h - the life of each block: one record for each block, when its life ends.
 *
 * One walk over the events. A live block has an entry by the reader's slot. When it is freed, or when the trace ends, a
 * record is written (steve/kernels/base/life.h). Analyses sum up the records (groups.h) or test them one by one.
 * They do not keep blocks, so memory is O(live blocks + sites + threads). If only one sum over all lives is needed,
 * the walk adds them to it and writes no records.
 *
 * An operation is an event of the kinds New to Modify; operations are numbered from 0. A block belongs to the
 * stack and thread of its New for life; its Resizes count as requested bytes, and it has the size of the last
 * one. Accesses beyond the block's end count, but the bytes there are not used bytes. Events of blocks whose New was
 * not fed are ignored.
 *
 * With a linework, accesses count only for lines of the program: sites, records and totals then have no accesses.
 *
 * In a sample of the blocks, records have the numbers of the recorded block and its weight (memtrace/sample.h);
 * sums are made of the products. The totals are estimates, and so are the numbers of operations.
 *
 * Used bytes are counted in 64 parts of a block: steve/kernels/base/used_bytes.h.
 *
 * The blocks that live at the beginning of a shard are entered first (lives_shard_enter). Lives that begin and end in
 * the shard are written as records. For a block that crosses a border, the shard reports a piece: what happened to
 * the block in the shard. Pieces are added in the order of the shards (lives_merge) to a struct lives of the
 * whole trace. It keeps the blocks that live between two shards, and writes the same records as one walk would.
 *
 * Numbers in a piece count from the beginning of the shard. A shard does not know two things of a block made
 * earlier. The first is which of its parts had been used; struct usedparts_map has the effect of the block's Resizes
 * on them. The second is the thread that made it; `thread` is the one that accessed it first in the shard, and
 * `shared` is set if others accessed it too. The size of the heap at the beginning of a shard is known, so a peak of
 * the shard is a peak of the whole if it is higher than all before.
 *
 * Pieces are sent between processes as bytes. A shard has O(live blocks) of them: none for a block without events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_LIVES_H
#define STEVE_KERNELS_LIVES_LIVES_H

#include "steve/kernels/base/segment_sums.h"
#include "steve/kernels/base/used_bytes.h"
#include "steve/kernels/lines/lines.h"
#include "steve/kernels/lives/groups.h"

enum { LIVES_HOW = 0x0f, LIVES_EARLIER = 0x40, LIVES_INHERITED = 0x80 }; /* with the `how` of a block */
#define LIVESPARTS_SAME UINT8_MAX /* a type: that of before the shard */

/* The accesses to a live block. */
struct lives_use {
    uint64_t parts; /* used ones */
    uint64_t last_use;
    uint64_t counts[3], bytes_of[3]; /* numbers and bytes by kind of access, from MT_LOAD */
    uint64_t first_use;
};

/* What is known of a live block. An access needs only the first 128 bytes, and changes 64 of them; with a linework it
 * does not change `use`. */
struct lives_block {
    struct lives_use use;
    uint64_t addr;
    uint16_t thread;
    uint8_t how, shift; /* how: enum mt_how | LIVES_INHERITED; shift: a part is 2^shift bytes */
    uint8_t live : 1, touched : 1, container : 1, kept : 1;
    uint8_t shared, type, reach;
    uint8_t earlier;                  /* made before this shard */
    uint32_t stack, heap, last_stack; /* as in struct life */
    uint64_t handle, size, bytes, resizes, born, born_time, born_allocated, news, peak, peak_bytes;
    uint64_t first_size, most, moves, copied;
    double weight; /* of struct life */
};

/* A moment: the totals at it. */
struct lives_moment {
    uint64_t operations, allocated, news, time;
};

/* What happened to a block in a shard. */
struct lives_piece {
    struct lives_block block;
    struct usedparts_map map;  /* of blocks made earlier */
    struct lives_moment ended; /* if it ended in this shard */
    uint32_t slot;
    uint16_t free_thread;
    uint8_t freed; /* it ended in this shard; else it lives on */
};

struct lives {
    struct lives_totals totals;
    uint64_t before; /* operations before the first event fed: records have numbers of the whole trace */
    /* In a sample by blocks, the weight of each block, else 1. Operations and totals count it for each access; sites,
     * threads and lines have the recorded accesses. */
    uint64_t times;
    struct lives_block *blocks; /* by slot */
    size_t room;
    struct groups *sums; /* NULL, or the caller's, to which lives are added instead of writing records */
    struct life *out;    /* records that the caller has not read: out[0 .. n_out - 1] */
    size_t n_out, out_room;
    size_t finished;                     /* slots for which lives_finish has written records */
    struct access_sums *sites, *threads; /* by site id; by thread number: NULL, or of all that can be */
    size_t sites_room;
    struct segment_runs runs; /* of a batch, whose accesses are not yet added to the sites */
    struct linework *lines;   /* NULL, or the caller's; it and its luacode must learn before each batch */
    const uint8_t *selected; /* a bit for each handle; NULL = all blocks */
    uint64_t n_selected;     /* handles that have a bit; those beyond are not selected */
    uint64_t since;          /* blocks with smaller handles are not selected */
    struct usedparts_map *maps; /* by slot, of blocks made earlier */
    size_t maps_room;
    struct lives_piece *pieces; /* of a shard */
    size_t n_pieces, pieces_room;
};

/* selected: see above; the caller owns it. Other blocks are treated as if they did not exist. */
void lives_init(struct lives *l, const uint8_t *selected, uint64_t n_selected);
void lives_free(struct lives *l);

/* Feed the next batch. False when out of memory. sites: number of sites that the reader knows. */
bool lives_feed(struct lives *l, const struct mt_batch *batch, uint32_t sites);
/* The trace ends at a time, in instructions. A time before the last event has no effect. */
void lives_end(struct lives *l, uint64_t time);
/* Write records of blocks that still live, a limited number at each call; none when there are no more. Nothing may
 * be fed afterwards. False when out of memory. */
bool lives_finish(struct lives *l);

bool lives_is_selected(const struct lives *l, uint64_t handle);

/* Set the bit of the handle of each record for which `keep` is true. The set has n_bits bits. */
void lives_mark(uint8_t *set, uint64_t n_bits, const struct life *lives, const uint8_t *keep, size_t n);

/* Enter a block that lives at the beginning of the shard, before anything is fed. False when out of memory. */
bool lives_shard_enter(struct lives *l, const struct mt_live_block *live);
/* Instead of lives_finish: add pieces of the blocks that live on. False when out of memory. */
bool lives_shard_finish(struct lives *l);

/* Add the pieces of the next shard to the whole, with the shard's totals. began: the totals after all blocks were
 * entered. Records are written to whole->out. False when out of memory. */
bool lives_merge(struct lives *whole, const struct lives_piece *pieces, size_t n,
                 const struct lives_totals *part, const struct lives_totals *began);

#endif
