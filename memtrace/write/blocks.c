/* blocks.c - the events of blocks: New, Free and Resize, and what they mean for other blocks and for freed memory.
 *
 * A block that begins or moves ends the blocks at its place, because their Frees were missed, or makes them containers.
 * A Free of an address where no block begins is an error of the program, whose kind is found out here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/base/error.h"
#include "memtrace/base/id_list.h"
#include "memtrace/write/writer_impl.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t mt_writer_peak_reserve(const struct mt_writer *w)
{
    return w->peak.reserve;
}

/* Bytes were allocated: are more live than ever? news: the number of News, with the one that begins. */
static void note_peak(struct mt_writer *w, uint64_t news)
{
    const uint64_t live = w->unsampled.all.allocated - w->unsampled.all.freed;
    if (live <= w->peak.bytes)
        return;
    w->peak.bytes = live;
    w->peak.news = news;
    w->peak.reserve = 0;
}

/* Add a freed block to the map of freed memory. */
static void remember_freed(struct mt_writer *w, const struct block *dead)
{
    if (!freed_add(&w->freed, dead))
        mt_fail_memory(&w->out.err);
}

static void count_free(struct mt_writer *w, uint64_t bytes)
{
    w->unsampled.all.frees++;
    w->unsampled.all.freed += bytes;
}

/* A block becomes a container. A recorded one also gets into the list of all containers. */
static void keep_container(struct mt_writer *w, const struct block *b)
{
    if (!containers_add(&w->containers, b))
        mt_fail_memory(&w->out.err);
}

/* A block becomes a container. A recorded one also gets into the list of all containers. */
static void begin_container(struct mt_writer *w, const struct block *b)
{
    keep_container(w, b);
    if (array_reserve(&w->container_list, &w->container_room, w->container_count + 1,
                      sizeof *w->container_list))
        w->container_list[w->container_count++] = b->handle;
    else
        mt_fail_memory(&w->out.err);
}

/* Free a recorded block. */
static void free_slot(struct mt_writer *w, uint32_t slot, uint32_t stack, enum writer_freeing why)
{
    struct buffer *b = writer_begin_event(w, MT_FREE);
    if (!b)
        return;
    count_free(w, w->map.blocks[slot].size);
    put_free(b, &(struct rec_free){w->totals.instructions, slot, why != WRITER_FREED, stack});
    struct block dead = w->map.blocks[slot];
    blockmap_remove(&w->map, slot);
    if (why == WRITER_MATERIAL) {
        begin_container(w, &dead);
        w->peak.reserve += dead.handle < w->peak.news ? dead.size : 0;
    } else {
        remember_freed(w, &dead);
    }
    w->totals.dropped += why == WRITER_COVERED && writer_is_certain(w, &dead);
    writer_end_event(w);
}

/* A block has ended. `keep`: its memory is freed memory now. False when out of memory. */
static bool unsampled_end(struct unsampled *u, uint32_t slot, bool keep)
{
    const struct block dead = u->map.blocks[slot];
    blockmap_remove(&u->map, slot);
    return !keep || freed_add(&u->freed, &dead);
}

/* End a block that the sample leaves out. As a container it has no handle, because the trace has no event of it. */
static void free_unsampled(struct mt_writer *w, uint32_t slot, enum writer_freeing why)
{
    struct block dead = w->unsampled.map.blocks[slot];
    dead.handle = MT_NO_HANDLE;
    count_free(w, dead.size);
    if (!unsampled_end(&w->unsampled, slot, why != WRITER_MATERIAL))
        mt_fail_memory(&w->out.err);
    if (why == WRITER_MATERIAL)
        keep_container(w, &dead);
}

static void free_held(struct mt_writer *w, struct held h, uint32_t stack, enum writer_freeing why)
{
    if (h.unsampled)
        free_unsampled(w, h.slot, why);
    else
        free_slot(w, h.slot, stack, why);
}

static struct held held_at(const struct mt_writer *w, uint64_t addr)
{
    const struct held recorded = {writer_failed(w) ? NO_SLOT : blockmap_at(&w->map, addr), false};
    if (recorded.slot != NO_SLOT || writer_failed(w))
        return recorded;
    return (struct held){unsampled_at(&w->unsampled, addr), true};
}

struct held writer_held_overlap(const struct mt_writer *w, uint64_t addr, uint64_t size, struct held except)
{
    const struct held recorded = {
        blockmap_overlap(&w->map, addr, size, except.unsampled ? NO_SLOT : except.slot), false};
    if (recorded.slot != NO_SLOT || !w->unsampled.sample.every)
        return recorded;
    return (struct held){
        blockmap_overlap(&w->unsampled.map, addr, size, except.unsampled ? except.slot : NO_SLOT), true};
}

static uint64_t last_of(const struct block *b)
{
    return span_last(b->base, b->size);
}

/* Does the heap divide blocks of other heaps into its own blocks? */
static bool is_of_pieces(const struct mt_writer *w, uint32_t heap)
{
    enum mt_heap_kind kind = writer_heap_kind(w, heap);
    return kind == MT_HEAP_CUSTOM || kind == MT_HEAP_LUA;
}

/* Does a new block of `heap` make this block a container? It does if it is a part of it and the heaps differ. */
static bool is_material(const struct mt_writer *w, const struct block *b, uint64_t addr, uint64_t size,
                        uint32_t heap)
{
    if (b->heap == heap || !is_of_pieces(w, heap))
        return false;
    return addr >= b->base && span_last(addr, size) <= last_of(b);
}

/* Free all blocks that a new or moved block of `heap` overlaps. */
static void free_overlapped(struct mt_writer *w, uint64_t addr, uint64_t size, struct held except,
                            uint32_t heap, uint32_t stack)
{
    struct held h;
    while (!writer_failed(w) && (h = writer_held_overlap(w, addr, size, except)).slot != NO_SLOT) {
        bool material = is_material(w, writer_held_block(w, h), addr, size, heap);
        free_held(w, h, stack, material ? WRITER_MATERIAL : WRITER_COVERED);
    }
}

/* The size of a block, reduced if it would end beyond the address space. */
static uint64_t fitting_size(uint64_t addr, uint64_t size)
{
    return span_fits(addr, size) ? size : 0 - addr;
}

/* Give a new block a slot and a handle; false when out of memory. */
static bool enter(struct mt_writer *w, struct rec_new *r)
{
    uint32_t slot = blockmap_add(&w->map, r->addr, r->size, (uint32_t)r->heap, w->handles++);
    if (slot == NO_SLOT || slot >= MAX_LIVE_BLOCKS)
        return mt_fail_memory(&w->out.err) == MT_OK;
    w->map.blocks[slot].note = (uint32_t)(r->stack << HOW_BITS | r->how);
    r->slot = w->newest = slot;
    writer_lua_new(w, slot);
    writer_survivors_note(w, slot);
    encoder_touch(&w->enc, r->addr, slot);
    return true;
}

/* The same of memory that blocks had that the sample leaves out. */
static void cover_unsampled(struct mt_writer *w, uint64_t addr, uint64_t size)
{
    if (!w->unsampled.sample.every)
        return;
    freed_cover(&w->unsampled.freed, addr, size);
    if (w->unsampled.freed.failed)
        mt_fail_memory(&w->out.err);
}

/* [addr, addr + size) is no longer freed memory. */
static void cover_freed(struct mt_writer *w, uint64_t addr, uint64_t size)
{
    freed_cover(&w->freed, addr, size);
    cover_unsampled(w, addr, size);
    if (w->freed.failed)
        mt_fail_memory(&w->out.err);
}

/* Make room for a new block: remove freed memory and free live blocks at its place. In most cases it reuses
 * exactly the memory of one freed block. */
static void clear_ground(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack)
{
    if (writer_failed(w))
        return;
    if (!freed_take(&w->freed, addr, size)) {
        if (w->unsampled.sample.every || !blockmap_is_clear(&w->map, addr, size))
            free_overlapped(w, addr, size, NO_BLOCK, heap, stack);
        freed_cover(&w->freed, addr, size);
        cover_unsampled(w, addr, size);
    }
    if (w->freed.failed)
        mt_fail_memory(&w->out.err);
}

static void count_new(struct mt_writer *w, uint64_t bytes)
{
    w->unsampled.all.news++;
    w->unsampled.all.allocated += bytes;
    note_peak(w, w->handles + 1);
}

/* The sample does not have this new block. */
static void leave_out(struct mt_writer *w, const struct rec_new *r)
{
    const struct block b = {.base = r->addr,
                            .size = r->size,
                            .heap = (uint32_t)r->heap,
                            .note = (uint32_t)(r->stack << HOW_BITS | r->how)};
    if (!writer_failed(w) && !unsampled_add(&w->unsampled, &b))
        mt_fail_memory(&w->out.err);
}

/* A heap allocates memory again, so it must have freed the containers there: remove them. */
static void forget_containers(struct mt_writer *w, uint64_t base, uint64_t size, uint32_t heap)
{
    struct block gone;
    while (containers_take_overlap(&w->containers, heap, base, size, &gone))
        ;
}

void mt_writer_block_new(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, enum mt_how how,
                         uint32_t stack)
{
    heap = known(heap, w->counts.heaps);
    stack = known(stack, w->counts.stacks);
    size = fitting_size(addr, size);
    if (containers_has(&w->containers, heap))
        forget_containers(w, addr, size, heap);
    released_take(&w->released, addr, heap);
    clear_ground(w, addr, size, heap, stack);
    struct rec_new r = {
        w->totals.instructions, 0, addr, size, heap, how < MT_HOWS ? how : MT_HOW_CUSTOM, stack};
    count_new(w, size);
    if (unsampled_leaves_out(&w->unsampled)) {
        leave_out(w, &r);
        return;
    }
    struct buffer *b = writer_begin_event(w, MT_NEW);
    if (!b)
        return;
    if (!enter(w, &r))
        return;
    put_new(b, &r);
    writer_end_event(w);
}

void writer_take_over(struct mt_writer *w, const struct block *block, bool inherited)
{
    struct rec_new r = {
        w->totals.instructions, 0, block->base, block->size, block->heap, note_how(block->note),
        note_stack(block->note)};
    struct buffer *b = writer_begin_event(w, MT_NEW);
    count_new(w, r.size);
    if (!b || !enter(w, &r))
        return;
    if (inherited)
        put_inherit(b, &(struct rec_inherit){r.time, r.slot, r.addr, r.size, r.heap, r.how, r.stack});
    else
        put_held(b, &(struct rec_held){r.time, r.slot, r.addr, r.size, r.heap, r.how, r.stack});
    w->inherited += inherited;
    writer_end_event(w);
}

bool mt_writer_block_earlier(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack)
{
    heap = known(heap, w->counts.heaps);
    stack = known(stack, w->counts.stacks);
    size = fitting_size(addr, size);
    if (writer_failed(w) || writer_held_overlap(w, addr, size ? size : 1, NO_BLOCK).slot != NO_SLOT)
        return false;
    cover_freed(w, addr, size);
    writer_take_over(
        w,
        &(struct block){.base = addr, .size = size, .heap = heap, .note = stack << HOW_BITS | MT_HOW_MALLOC},
        false);
    w->gap_handles = w->handles;
    return !writer_failed(w);
}

uint32_t writer_slot_at(const struct mt_writer *w, uint64_t addr, uint32_t heap)
{
    uint32_t slot = writer_failed(w) ? NO_SLOT : blockmap_at(&w->map, addr);
    return slot != NO_SLOT && w->map.blocks[slot].heap == heap ? slot : NO_SLOT;
}

/* May a function of `heap` free a block of `other`? Lua states may share an allocator, and then it is concluded from the
 * program's registers and stack which of them calls it. */
static bool may_free(const struct mt_writer *w, uint32_t heap, uint32_t other)
{
    return heap == other ||
           (writer_heap_kind(w, heap) == MT_HEAP_LUA && writer_heap_kind(w, other) == MT_HEAP_LUA);
}

/* The block that begins at addr, if a function of `heap` may free it. */
static struct held held_of_heap(struct mt_writer *w, uint64_t addr, uint32_t heap)
{
    const struct held h = held_at(w, addr);
    return h.slot != NO_SLOT && may_free(w, heap, writer_held_block(w, h)->heap) ? h : NO_BLOCK;
}

/* Write a BADFREE record. `concerned` is the block that the address lies in or lay in; NULL if there is none. */
static void put_bad(struct mt_writer *w, enum mt_badfree reason, const struct block *concerned, uint64_t addr,
                    uint32_t heap, uint32_t stack)
{
    struct rec_badfree r = {.time = w->totals.instructions,
                            .addr = addr,
                            .heap = heap,
                            .stack = stack,
                            .reason = reason,
                            .block = concerned ? concerned->handle + 1 : 0,
                            .offset = concerned ? addr - concerned->base : 0};
    struct buffer *b = writer_begin_event(w, MT_BADFREE);
    if (!b)
        return;
    put_badfree(b, &r);
    writer_end_event(w);
}

static const struct block *live_block(const struct mt_writer *w, uint32_t slot)
{
    return slot == NO_SLOT ? NULL : &w->map.blocks[slot];
}

/* Is a free of this address, at which no known block begins, an error that concerns a block that is left out? */
static bool unsampled_is_concerned(const struct unsampled *u, uint64_t addr)
{
    return u->sample.every && (blockmap_at(&u->map, addr) != NO_SLOT ||
                               blockmap_find(&u->map, addr) != NO_SLOT || freed_at(&u->freed, addr));
}

/* Write the error of a free of an address at which no block of `heap` begins. */
static void bad_free(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
{
    const struct block *here = live_block(w, blockmap_at(&w->map, addr));
    const struct block *around = live_block(w, blockmap_find(&w->map, addr));
    const struct block *dead = freed_at(&w->freed, addr);
    if (!here && !around && unsampled_is_concerned(&w->unsampled, addr))
        return;
    if (here)
        put_bad(w, MT_BADFREE_HEAP, here, addr, heap, stack);
    else if (around)
        put_bad(w, MT_BADFREE_INSIDE, around, addr, heap, stack);
    else
        put_bad(w, dead ? MT_BADFREE_DOUBLE : MT_BADFREE_INVALID, dead, addr, heap, stack);
}

/* May the New of the block at this address be missing: is the block from before the trace (mt_writer_options), or was
 * there a gap? It is counted then. */
static bool lacks_new(struct mt_writer *w, uint64_t addr)
{
    if (!(w->attached || w->has_gaps) || writer_failed(w))
        return w->lacks_news;
    const struct block *around = live_block(w, blockmap_find(&w->map, addr)),
                       *dead = freed_at(&w->freed, addr);
    if ((around && writer_is_certain(w, around)) || (dead && writer_is_certain(w, dead)))
        return w->lacks_news;
    if (w->has_gaps)
        w->orphans++;
    else
        w->older++;
    return true;
}

/* The family of functions that `how` belongs to: malloc, calloc, realloc and memalign share one function to free. */
static enum mt_how family(enum mt_how how)
{
    return how <= MT_HOW_MEMALIGN ? MT_HOW_MALLOC : how;
}

/* Write an error if a live block is freed or resized by functions of another family than it was allocated by.
 * `how` is the family; MT_HOWS = unknown. */
static void check_how(struct mt_writer *w, uint32_t slot, enum mt_how how, uint32_t stack)
{
    struct block b = w->map.blocks[slot];
    enum mt_how made = note_how(b.note);
    if (how < MT_HOWS && family(how) != family(made) && writer_is_certain(w, &b))
        put_bad(w, MT_BADFREE_MISMATCH, &b, b.base, b.heap, stack);
}

/* Remember that the block at addr ended with its container, so that one later free of it by `heap` is no error. */
static void note_released(struct mt_writer *w, uint64_t addr, uint32_t heap)
{
    if (!writer_failed(w) && !released_add(&w->released, addr, heap))
        mt_fail_memory(&w->out.err);
}

/* Free all blocks in a range whose owner has freed it. The allocators of these blocks may free them later. */
static void release(struct mt_writer *w, uint64_t base, uint64_t size, uint32_t stack)
{
    struct block gone;
    struct held h;
    while (!writer_failed(w) && (h = writer_held_overlap(w, base, size, NO_BLOCK)).slot != NO_SLOT) {
        gone = *writer_held_block(w, h);
        free_held(w, h, stack, WRITER_RELEASED);
        if (is_of_pieces(w, gone.heap))
            note_released(w, gone.base, gone.heap);
    }
    for (uint32_t heap = 0; heap < w->containers.heaps; heap++)
        while (containers_take_overlap(&w->containers, heap, base, size, &gone))
            if (is_of_pieces(w, heap))
                note_released(w, gone.base, heap);
}

/* The allocator of a container has freed it: all blocks in it end, and its memory becomes freed memory. */
static void end_container(struct mt_writer *w, const struct block *container, uint32_t stack)
{
    release(w, container->base, container->size, stack);
    cover_freed(w, container->base, container->size);
    if (container->handle != MT_NO_HANDLE && !freed_add(&w->freed, container))
        mt_fail_memory(&w->out.err);
}

/* Free the container of `heap` that begins at addr, with all blocks in it; false if there is none. */
static bool free_container(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
{
    struct block container;
    if (writer_failed(w) || !containers_take(&w->containers, heap, addr, &container))
        return false;
    end_container(w, &container, stack);
    return true;
}

/* Free a block by a function of this family; MT_HOWS = family unknown. */
static void free_how(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_how how, uint32_t stack)
{
    heap = known(heap, w->counts.heaps);
    stack = known(stack, w->counts.stacks);
    const struct held h = held_of_heap(w, addr, heap);
    if (h.slot == NO_SLOT) {
        if (!free_container(w, addr, heap, stack) && !released_take(&w->released, addr, heap) &&
            !lacks_new(w, addr))
            bad_free(w, addr, heap, stack);
        return;
    }
    if (!h.unsampled)
        check_how(w, h.slot, how, stack);
    free_held(w, h, stack, WRITER_FREED);
}

void mt_writer_block_free(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
{
    free_how(w, addr, heap, MT_HOWS, stack);
}

void mt_writer_block_free_as(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_how how,
                             uint32_t stack)
{
    free_how(w, addr, heap, how, stack);
}

/* Move or resize a live block. */
static void move(struct mt_writer *w, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack)
{
    struct block *b = &w->map.blocks[slot], old = *b;
    cover_freed(w, addr, size);
    b->note = stack << HOW_BITS | note_how(b->note);
    if (!blockmap_move(&w->map, slot, addr, size))
        mt_fail_memory(&w->out.err);
    else if (old.base > span_last(addr, size) || addr > span_last(old.base, old.size))
        remember_freed(w, &old);
    writer_survivors_note(w, slot);
    encoder_touch(&w->enc, addr, slot);
}

static void count_resize(struct mt_writer *w, uint64_t old_size, uint64_t size)
{
    struct all_blocks *all = &w->unsampled.all;
    all->resizes++;
    all->allocated += size;
    all->freed += old_size;
    note_peak(w, w->handles);
}

/* A block has moved or changed its size; note: its new note. False when out of memory. */
static bool unsampled_move(struct unsampled *u, uint32_t slot, uint64_t addr, uint64_t size, uint32_t note)
{
    struct block *b = &u->map.blocks[slot], old = *b;
    b->note = note;
    if (!blockmap_move(&u->map, slot, addr, size))
        return false;
    return span_last(old.base, old.size) >= addr && old.base <= span_last(addr, size)
               ? true
               : freed_add(&u->freed, &old);
}

/* Move or resize a block that the sample leaves out. */
static void move_unsampled(struct mt_writer *w, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack)
{
    const uint32_t how = note_how(w->unsampled.map.blocks[slot].note);
    cover_freed(w, addr, size);
    if (!unsampled_move(&w->unsampled, slot, addr, size, stack << HOW_BITS | how))
        mt_fail_memory(&w->out.err);
}

void mt_writer_block_resize(struct mt_writer *w, uint64_t old_addr, uint64_t addr, uint64_t size,
                            uint32_t heap, enum mt_how how, uint32_t stack)
{
    heap = known(heap, w->counts.heaps);
    stack = known(stack, w->counts.stacks);
    const struct held h = held_of_heap(w, old_addr, heap);
    if (h.slot == NO_SLOT && released_take(&w->released, old_addr, heap)) {
        note_released(w, addr, heap);
        return;
    }
    if (h.slot == NO_SLOT) {
        if (!free_container(w, old_addr, heap, stack)) {
            if (!lacks_new(w, old_addr))
                bad_free(w, old_addr, heap, stack);
            else if (!w->lacks_news) {
                w->older_most = size > w->older_most ? size : w->older_most;
                return;
            }
        }
        mt_writer_block_new(w, addr, size, heap, how, stack);
        return;
    }
    size = fitting_size(addr, size);
    if (!h.unsampled)
        check_how(w, h.slot, how, stack);
    free_overlapped(w, addr, size, h, heap, stack);
    count_resize(w, writer_held_block(w, h)->size, size);
    if (h.unsampled) {
        move_unsampled(w, h.slot, addr, size, stack);
        return;
    }
    struct buffer *b = writer_begin_event(w, MT_RESIZE);
    if (!b)
        return;
    put_resize(b,
               &(struct rec_resize){w->totals.instructions, h.slot, (int64_t)(addr - old_addr), size, stack});
    move(w, h.slot, addr, size, stack);
    writer_end_event(w);
}

/* Free all containers of a heap. */
static void free_containers(struct mt_writer *w, uint32_t heap, uint32_t stack)
{
    struct block container;
    while (!writer_failed(w) && containers_take_any(&w->containers, heap, &container))
        end_container(w, &container, stack);
}

void mt_writer_heap_free(struct mt_writer *w, uint32_t heap, uint32_t stack)
{
    heap = known(heap, w->counts.heaps);
    struct held h;
    for (uint64_t i = 0; (h = writer_held_nth(w, i)).slot != NO_SLOT; i++)
        if (writer_held_block(w, h)->heap == heap)
            free_held(w, h, known(stack, w->counts.stacks), WRITER_FREED);
    free_containers(w, heap, known(stack, w->counts.stacks));
}

/* -- what was found out about frees -- */

void mt_writer_lacks_news(struct mt_writer *w, bool lacks)
{
    w->lacks_news = lacks;
}

uint64_t mt_writer_older(const struct mt_writer *w)
{
    return w->older;
}

uint64_t mt_writer_older_most(const struct mt_writer *w)
{
    return w->older_most;
}

uint64_t mt_writer_orphans(const struct mt_writer *w)
{
    return w->orphans;
}

/* -- nested heaps: blocks that another allocator divides, and ranges of memory that are unmapped or moved --
 *
 * The bytes of a container never count as live, also not before it is divided. So readers have to know of a block, when
 * it is allocated, whether it will be divided: the file has a list of all containers at its end. */

enum mt_heap_kind writer_heap_kind(const struct mt_writer *w, uint32_t heap)
{
    return heap == 0 ? MT_HEAP_MALLOC
                     : (enum mt_heap_kind)((struct mt_heap *)table_at(&w->heaps, heap - 1))->kind;
}

/* The most bytes that the list takes up in the file. */
static uint64_t list_bytes(uint64_t n)
{
    return 12 * n + 1024 * (1 + n / ID_LIST_MOST);
}

/* Is the slot of a map of containers one that the trace has events of? */
static bool is_recorded(const struct blockmap *m, uint32_t slot)
{
    return m->blocks[slot].heap != DEAD_HEAP && m->blocks[slot].handle != MT_NO_HANDLE;
}

uint64_t mt_writer_kept_containers(const struct mt_writer *w, uint64_t *bytes)
{
    uint64_t n = 0;
    *bytes = 0;
    for (uint32_t heap = 0; heap < w->containers.heaps; heap++) {
        const struct blockmap *m = w->containers.of_heap[heap];
        for (uint32_t slot = 0; m && slot < m->used; slot++)
            if (is_recorded(m, slot)) {
                n++;
                *bytes += m->blocks[slot].size;
            }
    }
    return n;
}

/* Where a handle is in the list of all containers. */
static uint64_t *listed(const struct mt_writer *w, uint64_t handle)
{
    size_t from = 0, to = w->container_count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (w->container_list[middle] >> 1 < handle)
            from = middle + 1;
        else
            to = middle;
    }
    return &w->container_list[from];
}

/* Make the sorted list of handles one of twice the handles, + 1 for those whose allocator has not freed them. */
static void note_kept(struct mt_writer *w)
{
    for (size_t i = 0; i < w->container_count; i++)
        w->container_list[i] <<= 1;
    for (uint32_t heap = 0; heap < w->containers.heaps; heap++) {
        const struct blockmap *m = w->containers.of_heap[heap];
        for (uint32_t slot = 0; m && slot < m->used; slot++)
            if (is_recorded(m, slot))
                *listed(w, m->blocks[slot].handle) |= 1;
    }
}

/* A file that has reached its limit has no list, because it has not the events of all of these blocks. */
void writer_container_list(struct mt_writer *w)
{
    const uint64_t n = w->container_count;
    if (n == 0 || w->cut_off || writer_failed(w) || list_bytes(n) > chunk_writer_room(&w->out))
        return;
    id_list_sort(w->container_list, w->container_count);
    note_kept(w);
    writer_list(w, CHUNK_CONTAINERS, w->container_list, w->container_count);
}

void writer_copy_containers(struct mt_writer *to, const struct mt_writer *from)
{
    for (uint32_t heap = 0; heap < from->containers.heaps; heap++) {
        const struct blockmap *m = from->containers.of_heap[heap];
        for (uint32_t slot = 0; m && slot < m->used; slot++) {
            struct block b = m->blocks[slot];
            bool dead = b.heap == DEAD_HEAP;
            b.handle = MT_NO_HANDLE; /* the trace of the child has no event of this block */
            if (!dead && !containers_add(&to->containers, &b))
                mt_fail_memory(&to->out.err);
        }
    }
    if (!released_copy(&to->released, &from->released))
        mt_fail_memory(&to->out.err);
}

/* -- ranges ------------------------------------------------------------------------------------ */

/* Remove [addr, addr + size) from a block. What remains keeps the block's handle; if two parts remain, the first
 * does. Both keep the stack that allocated the block, because the caller that unmapped a part of it did not
 * allocate the rest. */
static void cut(struct mt_writer *w, struct held h, uint64_t addr, uint64_t size, uint32_t stack)
{
    struct block b = *writer_held_block(w, h);
    uint64_t end = b.base + b.size, gap_end = addr + size;
    if (b.base >= addr && end <= gap_end) {
        free_held(w, h, stack, WRITER_FREED);
        return;
    }
    uint64_t base = b.base < addr ? b.base : gap_end;
    uint64_t left = b.base < addr ? addr - b.base : end - gap_end;
    mt_writer_block_resize(w, b.base, base, left, b.heap, MT_HOW_CUSTOM, stack);
    writer_held_block(w, h)->note = b.note;
    if (b.base < addr && end > gap_end)
        mt_writer_block_new(w, gap_end, end - gap_end, b.heap, note_how(b.note), note_stack(b.note));
}

/* The same for a container. No event is written. */
static void cut_container(struct mt_writer *w, const struct block *container, uint64_t addr, uint64_t size)
{
    struct block head = *container, tail = *container;
    uint64_t end = container->base + container->size, gap_end = addr + size;
    head.size = addr - container->base;
    tail.base = gap_end;
    tail.size = end - gap_end;
    bool ok = container->base >= addr || containers_add(&w->containers, &head);
    ok = ok && (end <= gap_end || containers_add(&w->containers, &tail));
    if (!ok)
        mt_fail_memory(&w->out.err);
}

void mt_writer_unmap(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack)
{
    struct block container;
    struct held h;
    if (size == 0 || addr + size < addr)
        return;
    while (!writer_failed(w) && containers_take_overlap(&w->containers, heap, addr, size, &container))
        cut_container(w, &container, addr, size);
    while (!writer_failed(w) && (h = writer_held_overlap(w, addr, size, NO_BLOCK)).slot != NO_SLOT)
        if (writer_held_block(w, h)->heap == heap)
            cut(w, h, addr, size, stack);
        else
            free_held(w, h, stack, WRITER_RELEASED);
}

void mt_writer_remap(struct mt_writer *w, uint64_t old, uint64_t old_size, uint64_t addr, uint64_t size,
                     uint32_t heap, uint32_t stack)
{
    struct held h = held_at(w, old);
    const struct block *b = h.slot == NO_SLOT ? NULL : writer_held_block(w, h);
    if (b && b->heap == heap && b->size == old_size) {
        if (addr != old)
            mt_writer_unmap(w, addr, size, heap, stack);
        mt_writer_block_resize(w, old, addr, size, heap, MT_HOW_CUSTOM, stack);
        return;
    }
    h = writer_failed(w) ? NO_BLOCK : writer_held_overlap(w, old, old_size, NO_BLOCK);
    b = h.slot == NO_SLOT ? NULL : writer_held_block(w, h);
    const uint32_t made = b && b->heap == heap ? b->note : stack << HOW_BITS | MT_HOW_CUSTOM;
    mt_writer_unmap(w, old, old_size, heap, stack);
    mt_writer_unmap(w, addr, size, heap, stack);
    mt_writer_block_new(w, addr, size, heap, note_how(made), note_stack(made));
}

void mt_writer_mapped(struct mt_writer *w, uint64_t addr, uint64_t size)
{
    if (!writer_failed(w))
        cover_freed(w, addr, span_fits(addr, size) ? size : 0 - addr);
}

void mt_writer_trim(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack)
{
    uint64_t end = addr + size;
    struct held h;
    for (uint64_t i = 0; !writer_failed(w) && (h = writer_held_nth(w, i)).slot != NO_SLOT; i++) {
        struct block b = *writer_held_block(w, h);
        uint64_t base = b.base > addr ? b.base : addr, last = b.base + b.size < end ? b.base + b.size : end;
        if (b.heap != heap || (base == b.base && last == b.base + b.size))
            continue;
        if (base >= last)
            free_held(w, h, stack, WRITER_FREED);
        else
            mt_writer_block_resize(w, b.base, base, last - base, heap, MT_HOW_CUSTOM, stack);
    }
}

/* -- the blocks that a sample by blocks leaves out -- */

bool unsampled_init(struct unsampled *u, const struct mt_sample *sample, bool forget_freed)
{
    *u = (struct unsampled){.sample = *sample};
    return !sample->every || (blockmap_init(&u->map) & freed_init(&u->freed, forget_freed));
}

void unsampled_destroy(struct unsampled *u)
{
    if (!u->sample.every)
        return;
    blockmap_destroy(&u->map);
    freed_destroy(&u->freed);
}

bool unsampled_add(struct unsampled *u, const struct block *b)
{
    const uint32_t slot = blockmap_add(&u->map, b->base, b->size, b->heap, MT_NO_HANDLE);
    if (slot == NO_SLOT)
        return false;
    u->map.blocks[slot].note = b->note;
    return true;
}

static void put_fact(struct mt_writer *w, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    mt_writer_info(w, key, text);
}

/* If the file does not have all events, these numbers are not those that the sample estimates. */
void writer_all_blocks(struct mt_writer *w)
{
    const struct all_blocks *all = &w->unsampled.all;
    if (!w->unsampled.sample.every || w->cut_off)
        return;
    put_fact(w, "all_news", all->news);
    put_fact(w, "all_frees", all->frees);
    put_fact(w, "all_resizes", all->resizes);
    put_fact(w, "all_allocated", all->allocated);
    put_fact(w, "all_freed", all->freed);
}
