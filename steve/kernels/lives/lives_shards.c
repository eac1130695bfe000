/* lives_shards.c - lives of blocks in shards of a trace; see lives_shards.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/lives_shards.h"

#include "memtrace/base/array.h"
#include "steve/kernels/lines/lines_shards.h"

/* ---- a shard ------------------------------------------------------------------------------- */

bool lives_shard_enter(struct lives *l, const struct mt_live_block *live)
{
    if (!lives_is_selected(l, live->handle))
        return true;
    if (!array_grow(&l->blocks, &l->room, (size_t)live->slot + 1, sizeof *l->blocks) ||
        !array_grow(&l->maps, &l->maps_room, (size_t)live->slot + 1, sizeof *l->maps))
        return false;
    l->blocks[live->slot] = (struct lives_block){.handle = live->handle,
                                                 .addr = live->addr,
                                                 .size = live->size,
                                                 .heap = live->heap,
                                                 .shift = usedparts_shift(live->size),
                                                 .type = LIVESPARTS_SAME,
                                                 .earlier = true,
                                                 .live = true,
                                                 .container = live->container};
    l->totals.live_blocks++;
    l->totals.live_bytes += live->container ? 0 : live->size;
    l->totals.peak_bytes = l->totals.live_bytes;
    return true;
}

static bool add_piece_of(struct lives *l, struct lives_block *b, uint16_t thread, bool freed)
{
    uint32_t slot = (uint32_t)(b - l->blocks);

    if (!array_grow(&l->pieces, &l->pieces_room, l->n_pieces + 1, sizeof *l->pieces))
        return false;
    lives_note_peak(l, b);
    b->live = !freed;
    l->pieces[l->n_pieces++] =
        (struct lives_piece){.block = *b,
                             .map = b->earlier ? l->maps[slot] : (struct usedparts_map){0},
                             .ended = lives_now(l),
                             .slot = slot,
                             .free_thread = thread,
                             .freed = freed};
    return true;
}

bool lives_shard_end(struct lives *l, struct lives_block *b, uint16_t thread)
{
    return (!l->lines || lines_shard_end(l->lines, (uint32_t)(b - l->blocks))) &&
           add_piece_of(l, b, thread, true);
}

/* Did nothing happen to a block in the shard? */
static bool is_idle(const struct lives_block *b)
{
    return b->earlier && !b->touched && b->resizes == 0 && b->type == LIVESPARTS_SAME &&
           b->reach == MT_REACH_FULL;
}

bool lives_shard_finish(struct lives *l)
{
    for (size_t i = 0; i < l->room; i++) {
        struct lives_block *b = &l->blocks[i];

        if (b->live && !is_idle(b) && !add_piece_of(l, b, 0, false))
            return false;
    }
    return !l->lines || lines_shard_finish(l->lines);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void add_accesses(struct lives_block *b, const struct lives_block *piece, uint64_t before)
{
    if (!piece->touched)
        return;
    if (!b->touched)
        b->use.first_use = before + piece->use.first_use;
    b->touched = true;
    b->use.last_use = before + piece->use.last_use;
    for (unsigned kind = 0; kind < 3; kind++) {
        b->use.counts[kind] += piece->use.counts[kind];
        b->use.bytes_of[kind] += piece->use.bytes_of[kind];
    }
    b->shared |= piece->shared || piece->thread != b->thread;
}

static void add_resizes(struct lives_block *b, const struct lives_piece *p)
{
    const struct lives_block *piece = &p->block;

    b->use.parts = usedparts_mapped(&p->map, b->use.parts, piece->size) | piece->use.parts;
    b->shift = piece->shift;
    b->addr = piece->addr;
    b->size = piece->size;
    b->bytes += piece->bytes;
    b->last_stack = piece->resizes ? piece->last_stack : b->last_stack;
    b->resizes += piece->resizes;
    b->moves += piece->moves;
    b->copied += piece->copied;
    b->most = piece->most > b->most ? piece->most : b->most;
}

/* Set the bytes at the last peak. at_peak: number of the shard's last peak, if that is a peak of the whole; else 0. */
static void set_peak(const struct lives *whole, struct lives_block *b, const struct lives_block *piece,
                     uint64_t at_peak)
{
    if (at_peak == 0 && piece->earlier) {
        lives_note_peak(whole, b);
        return;
    }
    b->peak = whole->totals.peak;
    b->peak_bytes = at_peak && piece->peak == at_peak ? piece->peak_bytes : 0;
}

/* A block that was made in the shard lives on. */
static bool enter(struct lives *whole, const struct lives_piece *p, uint64_t at_peak)
{
    struct lives_block *b;

    if (!array_grow(&whole->blocks, &whole->room, (size_t)p->slot + 1, sizeof *whole->blocks))
        return false;
    b = &whole->blocks[p->slot];
    *b = p->block;
    b->born += whole->totals.operations;
    b->use.first_use += whole->totals.operations;
    b->use.last_use += whole->totals.operations;
    b->born_allocated += whole->totals.allocated;
    b->news += whole->totals.news;
    set_peak(whole, b, &p->block, at_peak);
    return true;
}

/* A block from an earlier shard was freed. */
static bool end(struct lives *whole, struct lives_block *b, const struct lives_piece *p)
{
    const struct lives_totals *t = &whole->totals;
    struct lives_moment at = {t->operations + p->ended.operations, t->allocated + p->ended.allocated,
                              t->news + p->ended.news, p->ended.time};
    struct lives_ending ending = {true, p->free_thread};

    return lives_retire(whole, b, &at, &ending);
}

static bool add_piece(struct lives *whole, const struct lives_piece *p, uint64_t at_peak)
{
    struct lives_block *b;

    if (!p->block.earlier)
        return enter(whole, p, at_peak);
    b = p->slot < whole->room ? &whole->blocks[p->slot] : NULL;
    if (!b || !b->live || b->handle != p->block.handle)
        return true; /* the shard's list of live blocks was wrong */
    set_peak(whole, b, &p->block, at_peak);
    add_accesses(b, &p->block, whole->totals.operations);
    add_resizes(b, p);
    if (p->block.type != LIVESPARTS_SAME)
        b->type = p->block.type;
    if (p->block.reach != MT_REACH_FULL)
        b->reach = p->block.reach;
    return !p->freed || end(whole, b, p);
}

/* After all pieces were added. */
static void add_totals(struct lives_totals *t, const struct lives_totals *part,
                       const struct lives_totals *began)
{
    struct lives_totals own = *part;

    own.live_bytes -= began->live_bytes;
    own.live_blocks -= began->live_blocks;
    lives_totals_merge(t, &own);
}

bool lives_merge(struct lives *whole, const struct lives_piece *pieces, size_t n,
                 const struct lives_totals *part, const struct lives_totals *began)
{
    bool higher = part->peak > 0 && part->peak_bytes > whole->totals.peak_bytes;

    if (higher) {
        whole->totals.peak++;
        whole->totals.peak_bytes = part->peak_bytes;
    }
    for (size_t i = 0; i < n; i++)
        if (!add_piece(whole, &pieces[i], higher ? part->peak : 0))
            return false;
    add_totals(&whole->totals, part, began);
    return true;
}
