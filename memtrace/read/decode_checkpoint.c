/* decode_checkpoint.c - reads CHECKPOINT chunks: the list of live blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/blocks/blockmap.h"
#include "memtrace/read/decoder.h"

static bool same(const struct decoder *d, const struct rec_block *r)
{
    if (r->slot >= d->block_count)
        return false;
    const struct live_block *b = &d->blocks[r->slot];
    return b->heap == r->heap && b->base == r->addr && b->size == r->size && b->handle == r->handle;
}

/* Add a block to the live blocks. Returns a description of the error, or NULL. */
static const char *enter(struct decoder *d, const struct rec_block *r)
{
    if (r->slot >= MAX_LIVE_BLOCKS || r->slot > d->block_count + (uint64_t)MAX_CHUNK_EVENTS)
        return "a live block has an invalid slot";
    if (!decoder_reserve_slot(d, r->slot))
        return "out of memory for live blocks";
    if (d->blocks[r->slot].heap != NO_HEAP || r->handle >= d->handles || !span_fits(r->addr, r->size) ||
        r->heap >= d->defs->heaps.count)
        return "a live block is invalid";
    d->blocks[r->slot] = (struct live_block){r->addr, r->size, r->handle, (uint32_t)r->heap,
                                             decoder_is_container(d, r->handle)};
    d->live++;
    return NULL;
}

static const char *begin(struct decoder *d, struct cursor *c, struct rec_checkpoint *r, bool replace)
{
    if (cursor_byte(c) != REC_CHECKPOINT || !get_checkpoint(c, r))
        return "the list of live blocks does not begin with their number";
    if (r->before == 0) {
        d->checkpoint_blocks = 0;
        if (replace)
            decoder_forget(d);
    }
    if (r->before != d->checkpoint_blocks)
        return "a part of the live blocks is missing";
    return NULL;
}

const char *decoder_checkpoint(struct decoder *d, struct cursor *c, bool replace)
{
    struct rec_checkpoint begun;
    struct rec_block r;
    const char *wrong = begin(d, c, &begun, replace);
    while (!wrong && c->p < c->end) {
        if (cursor_byte(c) != REC_BLOCK || !get_block(c, &r) || ++d->checkpoint_blocks > begun.blocks)
            wrong = "a live block is cut off or too many";
        else if (replace)
            wrong = enter(d, &r);
        else if (!same(d, &r))
            wrong = "a live block differs from the events before";
    }
    if (!wrong && !replace && begun.blocks != d->live)
        wrong = "the number of live blocks differs from that of the events before";
    d->checkpoint_whole = !wrong && d->checkpoint_blocks == begun.blocks;
    return wrong;
}
