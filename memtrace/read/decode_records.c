/* decode_records.c - reads the rare records of an EVENTS chunk and applies them to the live blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/prefetch.h"
#include "memtrace/blocks/blockmap.h"
#include "memtrace/read/decoder.h"

#include <stdlib.h>

static enum rare_result fail(struct decoder *d, const char *wrong)
{
    d->wrong = wrong;
    return RARE_STOP;
}

bool decoder_reserve_slot(struct decoder *d, uint64_t slot)
{
    if (slot < d->block_count)
        return true;
    if (slot >= d->block_capacity) {
        uint32_t capacity = d->block_capacity ? d->block_capacity * 2 : 1024;
        capacity = capacity > slot ? capacity : (uint32_t)slot + 1;
        struct live_block *blocks = realloc(d->blocks, capacity * sizeof *blocks);
        if (!blocks)
            return false;
        d->blocks = blocks;
        d->block_capacity = capacity;
    }
    while (d->block_count <= slot)
        d->blocks[d->block_count++] = (struct live_block){.heap = NO_HEAP};
    return true;
}

static struct live_block *live_block(struct decoder *d, uint64_t slot)
{
    return slot < d->block_count && d->blocks[slot].heap != NO_HEAP ? &d->blocks[slot] : NULL;
}

/* Handle a record of a block that is not live. It is an error, unless the New was lost with a damaged chunk. */
static enum rare_result unknown_block(struct decoder *d)
{
    if (!d->salvage || d->left == 0)
        return fail(d, "a block is named that is not live");
    d->lost++;
    d->left--;
    return RARE_NONE;
}

static void set_event(const struct decoder *d, struct mt_event *ev, enum mt_kind kind, uint32_t ref)
{
    *ev = (struct mt_event){
        .kind = kind, .ref = ref, .thread = d->thread, .time = d->streams[STREAM_RARE].time};
}

static void set_block(struct mt_event *ev, const struct live_block *b, uint64_t slot)
{
    ev->handle = b->handle;
    ev->addr = b->base;
    ev->size = b->size;
    ev->heap = b->heap;
    ev->slot = (uint32_t)slot;
}

/* The same for an event that makes or ends the block. */
static void set_life(struct decoder *d, struct mt_event *ev, const struct live_block *b, uint64_t slot)
{
    set_block(ev, b, slot);
    ev->container = b->container;
    ev->kept = b->kept;
    if (mt_is_sample(&d->defs->sample))
        ev->weight = mt_sample_weight(&d->defs->sample, b->handle, b->size);
}

/* Add a new or resized block to the recently accessed places, because it is likely to be accessed next. */
static void remember(struct decoder *d, uint64_t slot)
{
    recent_add(&d->recent, d->blocks[slot].base, (uint32_t)slot);
}

static enum rare_result apply_new(struct decoder *d, const struct rec_new *r, struct mt_event *ev)
{
    /* Slots are dense. But in a salvaged trace, and when reading began in the middle, the decoder does not know of
     * slots that were used and are free now. */
    uint64_t limit = d->salvage || d->midway ? d->block_count + (uint64_t)MAX_CHUNK_EVENTS : d->block_count;
    if (r->slot > limit || r->slot >= MAX_LIVE_BLOCKS || live_block(d, r->slot))
        return fail(d, "a new block has a slot that is not free");
    if (!span_fits(r->addr, r->size))
        return fail(d, "a new block ends beyond the address space");
    if (r->heap >= d->defs->heaps.count || r->how >= MT_HOWS || r->stack >= d->defs->stacks.count)
        return fail(d, "a new block names a heap, way or stack that is not defined");
    if (!decoder_reserve_slot(d, r->slot))
        return fail(d, "out of memory for live blocks");
    struct live_block *b = &d->blocks[r->slot];
    *b = (struct live_block){
        .base = r->addr, .size = r->size, .handle = d->handles, .heap = (uint32_t)r->heap};
    decoder_note_container(d, b);
    d->handles++;
    set_event(d, ev, MT_NEW, (uint32_t)r->stack);
    set_life(d, ev, b, r->slot);
    ev->how = (uint8_t)r->how;
    remember(d, r->slot);
    d->live++;
    return RARE_EVENT;
}

static enum rare_result apply_inherit(struct decoder *d, const struct rec_inherit *r, struct mt_event *ev)
{
    struct rec_new made = {r->time, r->slot, r->addr, r->size, r->heap, r->how, r->stack};
    enum rare_result result = apply_new(d, &made, ev);
    ev->implied = result == RARE_EVENT;
    return result;
}

static enum rare_result apply_held(struct decoder *d, const struct rec_held *r, struct mt_event *ev)
{
    struct rec_new made = {r->time, r->slot, r->addr, r->size, r->heap, r->how, r->stack};
    enum rare_result result = apply_new(d, &made, ev);
    ev->implied = ev->beyond = result == RARE_EVENT;
    return result;
}

static enum rare_result apply_free(struct decoder *d, const struct rec_free *r, struct mt_event *ev)
{
    struct live_block *b = live_block(d, r->slot);
    if (!b)
        return unknown_block(d);
    if (r->stack >= d->defs->stacks.count || r->implied > 1)
        return fail(d, "a free names a stack that is not defined");
    set_event(d, ev, MT_FREE, (uint32_t)r->stack);
    set_life(d, ev, b, r->slot);
    ev->implied = (uint8_t)r->implied;
    *b = (struct live_block){.heap = NO_HEAP};
    d->live--;
    return RARE_EVENT;
}

static enum rare_result apply_resize(struct decoder *d, const struct rec_resize *r, struct mt_event *ev)
{
    struct live_block *b = live_block(d, r->slot);
    if (!b)
        return unknown_block(d);
    if (r->stack >= d->defs->stacks.count)
        return fail(d, "a resize names a stack that is not defined");
    if (!span_fits(b->base + (uint64_t)r->moved, r->size))
        return fail(d, "a resized block ends beyond the address space");
    set_event(d, ev, MT_RESIZE, (uint32_t)r->stack);
    ev->old_addr = b->base;
    ev->old_size = b->size;
    b->base += (uint64_t)r->moved;
    b->size = r->size;
    set_block(ev, b, r->slot);
    ev->container = b->container;
    ev->kept = b->kept;
    remember(d, r->slot);
    return RARE_EVENT;
}

static enum rare_result apply_thread(struct decoder *d, const struct rec_thread *r, struct mt_event *ev)
{
    if (r->thread > UINT16_MAX)
        return fail(d, "a thread number is too large");
    d->thread = (uint16_t)r->thread;
    d->threads[d->thread / 64] |= UINT64_C(1) << d->thread % 64;
    if (d->thread >= d->thread_end)
        d->thread_end = d->thread + 1u;
    return RARE_NONE;
}

static enum rare_result apply_badfree(struct decoder *d, const struct rec_badfree *r, struct mt_event *ev)
{
    if (r->stack >= d->defs->stacks.count || r->heap >= d->defs->heaps.count)
        return fail(d, "a bad free names a stack or heap that is not defined");
    if (r->reason >= MT_BADFREES || r->block > d->handles || (r->block == 0 && r->offset) ||
        r->offset > r->addr)
        return fail(d, "a bad free is of an unknown kind or block");
    set_event(d, ev, MT_BADFREE, (uint32_t)r->stack);
    ev->addr = r->addr;
    ev->heap = (uint32_t)r->heap;
    ev->how = (uint8_t)r->reason;
    ev->handle = r->block ? r->block - 1 : MT_NO_HANDLE;
    ev->offset = r->offset;
    if (r->reason == MT_BADFREE_MISMATCH)
        d->mismatched_frees++;
    else
        d->unmatched_frees++;
    return RARE_EVENT;
}

/* Events that say nothing of a block: apply_mark and so on. */
static bool can_be_U(const struct decoder *d, uint64_t v)
{
    (void)d, (void)v;
    return true;
}

static bool can_be_STRING(const struct decoder *d, uint64_t id)
{
    return id < d->defs->strings.count;
}

static bool can_be_STACK(const struct decoder *d, uint64_t id)
{
    return id < d->defs->stacks.count;
}

#define RECORD(NAME, name, code, fields)
#define EVENT_RECORD(NAME, name, code, fields)
#define PLAIN_EVENT(NAME, name, code, fields)                                                                \
    static enum rare_result apply_##name(struct decoder *d, const struct rec_##name *r, struct mt_event *ev) \
    {                                                                                                        \
        bool can_be = true;                                                                                  \
        set_event(d, ev, MT_##NAME, 0);                                                                      \
        fields return can_be ? RARE_EVENT                                                                    \
                             : fail(d, "a " #name " names a string or stack that is not defined");           \
    }
#define F(field, coding)
#define E(field, coding, to)                                                                                 \
    can_be = can_be && can_be_##coding(d, r->field);                                                         \
    ev->to = r->field;
#include "memtrace/format/records.def"
#undef F

static enum rare_result apply_type(struct decoder *d, const struct rec_type *r, struct mt_event *ev)
{
    struct live_block *b = live_block(d, r->slot);
    if (!b)
        return unknown_block(d);
    if (r->type >= MT_TYPES)
        return fail(d, "a block is of an unknown type");
    set_event(d, ev, MT_TYPE, (uint32_t)r->type);
    set_block(ev, b, r->slot);
    return RARE_EVENT;
}

static enum rare_result apply_reach(struct decoder *d, const struct rec_reach *r, struct mt_event *ev)
{
    struct live_block *b = live_block(d, r->slot);
    if (!b)
        return unknown_block(d);
    if (r->reach >= MT_REACHES)
        return fail(d, "a block is reached in an unknown way");
    set_event(d, ev, MT_REACH, (uint32_t)r->reach);
    set_block(ev, b, r->slot);
    return RARE_EVENT;
}

static enum rare_result apply_vm(struct decoder *d, const struct rec_vm *r, struct mt_event *ev)
{
    if (r->heap >= d->defs->heaps.count || r->vm >= MT_VMS || r->trace > UINT32_MAX)
        return fail(d, "a virtual machine's state or heap is not known");
    set_event(d, ev, MT_STATE, (uint32_t)r->trace);
    ev->heap = (uint32_t)r->heap;
    ev->how = (uint8_t)r->vm;
    return RARE_EVENT;
}

static enum rare_result apply_sample(struct decoder *d, const struct rec_sample *r, struct mt_event *ev)
{
    if (r->heap >= d->defs->heaps.count || r->vm >= MT_VMS || r->stack >= d->defs->stacks.count || !r->weight)
        return fail(d, "a sample has an unknown heap, state or stack, or no weight");
    set_event(d, ev, MT_SAMPLE, (uint32_t)r->stack);
    ev->heap = (uint32_t)r->heap;
    ev->how = (uint8_t)r->vm;
    ev->size = r->weight;
    return RARE_EVENT;
}

static enum rare_result apply_touch(struct decoder *d, const struct rec_touch *r, struct mt_event *ev)
{
    struct live_block *b = live_block(d, r->slot);
    if (!b)
        return unknown_block(d);
    if (r->kind < MT_LOAD || r->kind > MT_MODIFY)
        return fail(d, "a system call's access is of an unknown kind");
    if (r->size == 0 || r->offset >= b->size || r->size > b->size - r->offset)
        return fail(d, "a system call's access lies outside its block");
    set_event(d, ev, (enum mt_kind)r->kind, 0);
    set_block(ev, b, r->slot);
    ev->addr = b->base + r->offset;
    ev->size = r->size;
    ev->offset = r->offset;
    ev->kernel = 1;
    return RARE_EVENT;
}

/* Does the site of an access to no live block agree with its kind and size? Accesses by system calls have site 0. */
static bool is_site(const struct decoder *d, uint64_t site, uint64_t kind, uint64_t size)
{
    const struct mt_site *s = site < d->defs->sites.count ? table_at(&d->defs->sites, (uint32_t)site) : NULL;
    if (site == 0)
        return kind >= MT_LOAD && kind <= MT_MODIFY;
    /* a site whose definition was lost with a damaged chunk has kind 0 */
    return s && ((s->kind == kind && s->size == size) || (d->salvage && !s->kind));
}

static enum rare_result apply_freed(struct decoder *d, const struct rec_freed *r, struct mt_event *ev)
{
    if (!is_site(d, r->site, r->kind, r->size) || r->heap >= d->defs->heaps.count)
        return fail(d, "an access to freed memory names a site or heap that is not defined");
    if (r->handle >= d->handles || r->offset > r->addr)
        return fail(d, "an access to freed memory names a block that never existed");
    set_event(d, ev, (enum mt_kind)r->kind, (uint32_t)r->site);
    ev->addr = r->addr;
    ev->size = r->size;
    ev->handle = r->handle;
    ev->offset = r->offset;
    ev->heap = (uint32_t)r->heap;
    ev->kernel = r->site == 0;
    ev->freed = 1;
    return RARE_EVENT;
}

static enum rare_result apply_beside(struct decoder *d, const struct rec_beside *r, struct mt_event *ev)
{
    struct live_block *b = live_block(d, r->slot);
    if (!b)
        return unknown_block(d);
    if (!is_site(d, r->site, r->kind, r->size))
        return fail(d, "an access beside a block names a site that is not defined");
    if (r->addr - b->base < b->size)
        return fail(d, "an access beside a block begins in it");
    set_event(d, ev, (enum mt_kind)r->kind, (uint32_t)r->site);
    set_block(ev, b, r->slot);
    ev->addr = r->addr;
    ev->size = r->size;
    ev->offset = r->addr - b->base;
    ev->kernel = r->site == 0;
    ev->freed = ev->beyond = 1;
    return RARE_EVENT;
}

enum rare_result decode_rare(struct decoder *d, struct mt_event *ev)
{
    struct cursor *c = &d->streams[STREAM_RARE];
    switch (cursor_byte(c)) {
#define RECORD(NAME, name, code, fields)
#define EVENT_RECORD(NAME, name, code, fields)                                                               \
    case REC_##NAME: {                                                                                       \
        struct rec_##name r;                                                                                 \
        return get_##name(c, &r) ? apply_##name(d, &r, ev) : fail(d, "record is cut off");                   \
    }
#include "memtrace/format/records.def"
    case REC_STOP:
        return RARE_STOP;
    default:
        return fail(d, "unknown record among events");
    }
}

void decode_rare_ahead(const struct decoder *d)
{
    struct cursor ahead = d->streams[STREAM_RARE];
    uint8_t type = cursor_byte(&ahead);
    if (type == REC_THREAD) {
        cursor_uvarint(&ahead);
        type = cursor_byte(&ahead);
    }
    if (type != REC_FREE && type != REC_RESIZE)
        return;
    get_T(&ahead);
    uint64_t slot = get_U(&ahead);
    if (slot < d->block_count)
        fetch_soon(&d->blocks[slot]);
}

/* -- reads CHECKPOINT chunks: the list of live blocks. -- */

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
    struct live_block *b = &d->blocks[r->slot];
    *b =
        (struct live_block){.base = r->addr, .size = r->size, .handle = r->handle, .heap = (uint32_t)r->heap};
    decoder_note_container(d, b);
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
