/* containers.c - heaps in heaps: blocks that another heap cuts up, and memory that goes away by the range.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
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

/* Does the heap cut its blocks from blocks of other heaps? */
static bool is_of_pieces(const struct mt_writer *w, uint32_t heap)
{
    enum mt_heap_kind kind = writer_heap_kind(w, heap);
    return kind == MT_HEAP_CUSTOM || kind == MT_HEAP_LUA;
}

bool writer_is_material(const struct mt_writer *w, uint32_t slot, uint64_t addr, uint64_t size, uint32_t heap)
{
    const struct block *b = &w->map.blocks[slot];
    if (b->heap == heap || !is_of_pieces(w, heap))
        return false;
    return addr >= b->base && span_last(addr, size) <= last_of(b);
}

void writer_note_released(struct mt_writer *w, uint64_t addr, uint32_t heap)
{
    if (!writer_failed(w) && !released_add(&w->released, addr, heap))
        mt_fail_memory(&w->out.err);
}

/* Free whatever lies in a range that its owner has taken back. The owners of the pieces may not know yet. */
static void release(struct mt_writer *w, uint64_t base, uint64_t size, uint32_t stack)
{
    struct block gone;
    uint32_t slot;
    while (!writer_failed(w) && (slot = blockmap_overlap(&w->map, base, size, NO_SLOT)) != NO_SLOT) {
        gone = w->map.blocks[slot];
        writer_free_slot(w, slot, stack, WRITER_RELEASED);
        if (is_of_pieces(w, gone.heap))
            writer_note_released(w, gone.base, gone.heap);
    }
    for (uint32_t heap = 0; heap < w->arenas.heaps; heap++)
        while (arenas_take_overlap(&w->arenas, heap, base, size, &gone))
            if (is_of_pieces(w, heap))
                writer_note_released(w, gone.base, heap);
}

/* An arena's own allocator has taken it back: from now on it is freed memory. */
static void end_arena(struct mt_writer *w, const struct block *arena, uint32_t stack)
{
    release(w, arena->base, arena->size, stack);
    writer_cover(w, arena->base, arena->size);
    if (arena->handle != MT_NO_HANDLE && !freed_add(&w->freed, arena))
        mt_fail_memory(&w->out.err);
}

bool writer_free_arena(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
{
    struct block arena;
    if (writer_failed(w) || !arenas_take(&w->arenas, heap, addr, &arena))
        return false;
    end_arena(w, &arena, stack);
    return true;
}

void writer_free_arenas(struct mt_writer *w, uint32_t heap, uint32_t stack)
{
    struct block arena;
    while (!writer_failed(w) && arenas_take_any(&w->arenas, heap, &arena))
        end_arena(w, &arena, stack);
}

void writer_forget_arenas(struct mt_writer *w, uint64_t base, uint64_t size, uint32_t heap)
{
    struct block gone;
    while (arenas_take_overlap(&w->arenas, heap, base, size, &gone))
        ;
}

void writer_copy_arenas(struct mt_writer *to, const struct mt_writer *from)
{
    for (uint32_t heap = 0; heap < from->arenas.heaps; heap++) {
        const struct blockmap *m = from->arenas.of_heap[heap];
        for (uint32_t slot = 0; m && slot < m->used; slot++) {
            struct block b = m->blocks[slot];
            bool dead = b.heap == DEAD_HEAP;
            b.handle = MT_NO_HANDLE; /* the child's trace never had it */
            if (!dead && !arenas_add(&to->arenas, &b))
                mt_fail_memory(&to->out.err);
        }
    }
    if (!released_copy(&to->released, &from->released))
        mt_fail_memory(&to->out.err);
}

/* -- ranges ------------------------------------------------------------------------------------ */

/* Take [addr, addr + size) out of a block: what is left keeps its handle; of two parts, the first. Both remain blocks of
 * the stack that made the whole: who took something out of it did not make the rest. */
static void cut(struct mt_writer *w, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack)
{
    struct block b = w->map.blocks[slot];
    uint64_t end = b.base + b.size, gap_end = addr + size;
    if (b.base >= addr && end <= gap_end) {
        writer_free_slot(w, slot, stack, WRITER_FREED);
        return;
    }
    uint64_t base = b.base < addr ? b.base : gap_end;
    uint64_t left = b.base < addr ? addr - b.base : end - gap_end;
    mt_writer_block_resize(w, b.base, base, left, b.heap, MT_HOW_CUSTOM, stack);
    w->map.blocks[slot].note = b.note;
    if (b.base < addr && end > gap_end)
        mt_writer_block_new(w, gap_end, end - gap_end, b.heap, note_how(b.note), note_stack(b.note));
}

/* The same for an arena, of which nobody is told. */
static void cut_arena(struct mt_writer *w, const struct block *arena, uint64_t addr, uint64_t size)
{
    struct block head = *arena, tail = *arena;
    uint64_t end = arena->base + arena->size, gap_end = addr + size;
    head.size = addr - arena->base;
    tail.base = gap_end;
    tail.size = end - gap_end;
    bool ok = arena->base >= addr || arenas_add(&w->arenas, &head);
    ok = ok && (end <= gap_end || arenas_add(&w->arenas, &tail));
    if (!ok)
        mt_fail_memory(&w->out.err);
}

void mt_writer_unmap(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack)
{
    struct block arena;
    uint32_t slot;
    if (size == 0 || addr + size < addr)
        return;
    while (!writer_failed(w) && arenas_take_overlap(&w->arenas, heap, addr, size, &arena))
        cut_arena(w, &arena, addr, size);
    while (!writer_failed(w) && (slot = blockmap_overlap(&w->map, addr, size, NO_SLOT)) != NO_SLOT)
        if (w->map.blocks[slot].heap == heap)
            cut(w, slot, addr, size, stack);
        else
            writer_free_slot(w, slot, stack, WRITER_RELEASED);
}

void mt_writer_remap(struct mt_writer *w, uint64_t old, uint64_t old_size, uint64_t addr, uint64_t size,
                     uint32_t heap, uint32_t stack)
{
    uint32_t slot = writer_failed(w) ? NO_SLOT : blockmap_at(&w->map, old);
    const struct block *b = slot == NO_SLOT ? NULL : &w->map.blocks[slot];
    if (b && b->heap == heap && b->size == old_size) {
        if (addr != old)
            mt_writer_unmap(w, addr, size, heap, stack);
        mt_writer_block_resize(w, old, addr, size, heap, MT_HOW_CUSTOM, stack);
        return;
    }
    slot = writer_failed(w) ? NO_SLOT : blockmap_overlap(&w->map, old, old_size, NO_SLOT);
    const uint32_t made = slot != NO_SLOT && w->map.blocks[slot].heap == heap
                              ? w->map.blocks[slot].note
                              : stack << HOW_BITS | MT_HOW_CUSTOM;
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
    for (uint32_t slot = 0; slot < w->map.used && !writer_failed(w); slot++) {
        struct block b = w->map.blocks[slot];
        uint64_t base = b.base > addr ? b.base : addr, last = b.base + b.size < end ? b.base + b.size : end;
        if (b.heap != heap || (base == b.base && last == b.base + b.size))
            continue;
        if (base >= last)
            writer_free_slot(w, slot, stack, WRITER_FREED);
        else
            mt_writer_block_resize(w, b.base, base, last - base, heap, MT_HOW_CUSTOM, stack);
    }
}
