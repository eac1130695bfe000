/* containers.c - nested heaps: blocks that another allocator divides into its own blocks, and ranges of memory that
 * are unmapped or moved.
 *
 * The bytes of a container never count as live, also not before it is divided. So readers have to know of a block, when
 * it is allocated, whether it will be divided: the file has a list of all containers at its end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/base/error.h"
#include "memtrace/base/id_list.h"
#include "memtrace/write/writer_impl.h"

enum mt_heap_kind writer_heap_kind(const struct mt_writer *w, uint32_t heap)
{
    return heap == 0 ? MT_HEAP_MALLOC
                     : (enum mt_heap_kind)((struct mt_heap *)table_at(&w->heaps, heap - 1))->kind;
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

bool writer_is_material(const struct mt_writer *w, const struct block *b, uint64_t addr, uint64_t size,
                        uint32_t heap)
{
    if (b->heap == heap || !is_of_pieces(w, heap))
        return false;
    return addr >= b->base && span_last(addr, size) <= last_of(b);
}

void writer_keep_container(struct mt_writer *w, const struct block *b)
{
    if (!containers_add(&w->containers, b))
        mt_fail_memory(&w->out.err);
}

void writer_begin_container(struct mt_writer *w, const struct block *b)
{
    writer_keep_container(w, b);
    if (array_reserve(&w->container_list, &w->container_room, w->container_count + 1,
                      sizeof *w->container_list))
        w->container_list[w->container_count++] = b->handle;
    else
        mt_fail_memory(&w->out.err);
}

/* The most bytes that the list takes up in the file. */
static uint64_t list_bytes(uint64_t n)
{
    return 12 * n + 1024 * (1 + n / ID_LIST_MOST);
}

/* A file that has reached its limit has no list, because it has not the events of all of these blocks. */
void writer_container_list(struct mt_writer *w)
{
    const uint64_t n = w->container_count;
    if (n == 0 || w->cut_off || writer_failed(w) || list_bytes(n) > chunk_writer_room(&w->out))
        return;
    id_list_sort(w->container_list, w->container_count);
    writer_list(w, CHUNK_CONTAINERS, w->container_list, w->container_count);
}

void writer_note_released(struct mt_writer *w, uint64_t addr, uint32_t heap)
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
        writer_free_held(w, h, stack, WRITER_RELEASED);
        if (is_of_pieces(w, gone.heap))
            writer_note_released(w, gone.base, gone.heap);
    }
    for (uint32_t heap = 0; heap < w->containers.heaps; heap++)
        while (containers_take_overlap(&w->containers, heap, base, size, &gone))
            if (is_of_pieces(w, heap))
                writer_note_released(w, gone.base, heap);
}

/* The allocator of a container has freed it: all blocks in it end, and its memory becomes freed memory. */
static void end_container(struct mt_writer *w, const struct block *container, uint32_t stack)
{
    release(w, container->base, container->size, stack);
    writer_cover(w, container->base, container->size);
    if (container->handle != MT_NO_HANDLE && !freed_add(&w->freed, container))
        mt_fail_memory(&w->out.err);
}

bool writer_free_container(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
{
    struct block container;
    if (writer_failed(w) || !containers_take(&w->containers, heap, addr, &container))
        return false;
    end_container(w, &container, stack);
    return true;
}

void writer_free_containers(struct mt_writer *w, uint32_t heap, uint32_t stack)
{
    struct block container;
    while (!writer_failed(w) && containers_take_any(&w->containers, heap, &container))
        end_container(w, &container, stack);
}

void writer_forget_containers(struct mt_writer *w, uint64_t base, uint64_t size, uint32_t heap)
{
    struct block gone;
    while (containers_take_overlap(&w->containers, heap, base, size, &gone))
        ;
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
        writer_free_held(w, h, stack, WRITER_FREED);
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
            writer_free_held(w, h, stack, WRITER_RELEASED);
}

void mt_writer_remap(struct mt_writer *w, uint64_t old, uint64_t old_size, uint64_t addr, uint64_t size,
                     uint32_t heap, uint32_t stack)
{
    struct held h = writer_held_at(w, old);
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
        writer_cover(w, addr, span_fits(addr, size) ? size : 0 - addr);
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
            writer_free_held(w, h, stack, WRITER_FREED);
        else
            mt_writer_block_resize(w, b.base, base, last - base, heap, MT_HOW_CUSTOM, stack);
    }
}
