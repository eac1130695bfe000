/* lives.h - the life of each block, told when it ends: one record for each block.
 *
 * One walk over the events; while a block lives it has an entry by the reader's slot, and when it is freed
 * (or the trace ends) a record comes out (steve/kernels/base/life.h). Analyses add records up (groups.h) or test them one by
 * one; none of them keeps a block, so memory is O(live blocks + sites + threads). Who only wants one sum of
 * all lives has them added there as they end.
 *
 * An operation is an event of the kinds New to Modify; operations are numbered from 0. A block belongs to the
 * stack and thread of its New for life; its Resizes count as bytes asked for, and it has the size of the last
 * one. Accesses beyond the block's end count, the bytes there are not used bytes. Events of blocks whose New
 * was not fed are passed over.
 *
 * With a linework, accesses count for lines of the program and for nothing else: not at their sites, and the
 * records and totals know of none.
 *
 * Used bytes are counted in 64 parts of a block: steve/kernels/base/used_bytes.h. A trace may be read in parts: lives_parts.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_LIVES_H
#define STEVE_KERNELS_LIVES_LIVES_H

#include "steve/kernels/base/life.h"
#include "steve/kernels/base/segment_runs.h"
#include "steve/kernels/base/used_bytes.h"
#include "steve/kernels/lines/lines.h"
#include "steve/kernels/lives/groups.h"

enum { LIVES_HOW = 0x0f, LIVES_EARLIER = 0x40, LIVES_INHERITED = 0x80 }; /* with the `how` of a block */

/* What accesses did to a live block. */
struct lives_use {
    uint64_t parts; /* used ones */
    uint64_t last_use;
    uint64_t counts[3], bytes_of[3]; /* by kind of access, from MT_LOAD: how many, of how many bytes */
    uint64_t first_use;
};

/* What is known of a live block. The first 128 bytes are all that an access needs, of which 64 change; with a
 * linework none of `use` ever does. */
struct lives_block {
    struct lives_use use;
    uint64_t addr;
    uint16_t thread;
    uint8_t how, shift; /* how: enum mt_how | LIVES_INHERITED; shift: a part is 2^shift bytes */
    uint8_t live : 1, touched : 1;
    uint8_t shared, type, reach;
    uint8_t earlier; /* made before this part of a trace: see lives_parts.h */
    uint32_t stack, heap, last_stack; /* as in struct life */
    uint64_t handle, size, bytes, resizes, born, born_time, born_allocated, news, peak, peak_bytes;
    uint64_t first_size, most, moves, copied;
};

struct lives_totals {
    uint64_t operations, news, frees, resizes, accesses;
    uint64_t allocated, live_bytes, live_blocks;
    uint64_t peak, peak_bytes; /* number of the last peak, and the bytes live then */
    uint64_t time;             /* of the last event */
};

/* When something happened: how much had by then. */
struct lives_moment {
    uint64_t operations, allocated, news, time;
};

/* How a life ended. */
struct lives_ending {
    bool freed;
    uint16_t thread; /* that freed it */
};

struct lives {
    struct lives_totals totals;
    uint64_t before; /* operations before the first event fed: records tell numbers of the whole trace */
    struct lives_block *blocks; /* by slot */
    size_t room;
    struct groups *sums; /* NULL, or the caller's: lives are added to it, and no records come out */
    struct life *out;    /* records not yet taken: out[0 .. n_out - 1] */
    size_t n_out, out_room;
    size_t finished;                     /* slots whose blocks lives_finish has told */
    struct access_sums *sites, *threads; /* by site id, by thread number */
    size_t sites_room, threads_room;
    struct segment_runs runs; /* of a batch, whose accesses are not yet added to those of sites */
    struct linework *lines;  /* NULL, or the caller's, who has it and its luacode learn before each batch */
    const uint8_t *selected; /* a bit for each handle; NULL = all blocks */
    uint64_t n_selected;     /* handles that have a bit; those beyond are not selected */
    uint64_t since;          /* handles below this do not exist either */
    struct usedparts_map *maps; /* by slot, of blocks made earlier */
    size_t maps_room;
    struct lives_piece *pieces; /* of a part of a trace; see lives_parts.h */
    size_t n_pieces, pieces_room;
};

/* selected: see above; stays the caller's. With it the other blocks do not exist. */
void lives_init(struct lives *l, const uint8_t *selected, uint64_t n_selected);
void lives_free(struct lives *l);

/* Take events up to and with the next MT_MARK, or all n: how many; SIZE_MAX when out of memory. sites: how
 * many the reader knows. */
size_t lives_feed(struct lives *l, const struct mt_event *events, size_t n, uint32_t sites);
/* The same for all of a batch, marks or not. */
bool lives_feed_batch(struct lives *l, const struct mt_batch *batch, uint32_t sites);
/* What is looked at ends at a time, in instructions; one before the last event's changes nothing. */
void lives_end(struct lives *l, uint64_t time);
/* Records of blocks that still live, a limited number at each call, none when all are told. Nothing may be
 * fed afterwards. False when out of memory. */
bool lives_finish(struct lives *l);

/* For lives_parts.c. The bytes of a block are about to change: if there was a peak since they last did, they
 * were its. Tell the life of a block that ended at a moment; false when out of memory. The moment now. Is a
 * handle selected? */
void lives_note_peak(const struct lives *l, struct lives_block *b);
bool lives_retire(struct lives *l, struct lives_block *b, const struct lives_moment *at,
                  const struct lives_ending *ending);
struct lives_moment lives_now(const struct lives *l);
bool lives_is_selected(const struct lives *l, uint64_t handle);

/* Set the bit of the handle of each record that is to be kept. The set has bits for n_bits handles. */
void lives_mark(uint8_t *set, uint64_t n_bits, const struct life *lives, const uint8_t *keep, size_t n);

#endif
