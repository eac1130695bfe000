/* reach.c - determines which live blocks the program can still reach when it ends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/write/writer_impl.h"
#include <stdlib.h>

/* Are blocks of this heap searched for? Memory of Lua heaps and of mmap is in use until it is freed. */
static bool is_to_be_reached(const struct mt_writer *w, uint32_t heap)
{
    enum mt_heap_kind kind = writer_heap_kind(w, heap);
    return kind == MT_HEAP_MALLOC || kind == MT_HEAP_CUSTOM;
}

/* Is an address outside live blocks, in memory that was freed to a C allocator? Pointers there are remains of
 * freed blocks. A page with a live block of the C heap is regarded as such memory, too. */
static bool is_left_over(struct mt_writer *w, uint64_t at, bool allocator)
{
    const uint64_t page = at & ~(uint64_t)((1 << PAGE_BITS) - 1);
    if (containers_hold(&w->containers, at))
        return false;
    if (allocator || page == w->reach_page)
        return allocator || w->reach_page_is_heap;
    uint32_t slot = blockmap_overlap(&w->map, page, 1 << PAGE_BITS, NO_SLOT);
    w->reach_page = page;
    w->reach_page_is_heap = slot != NO_SLOT && w->map.blocks[slot].heap == 0;
    return w->reach_page_is_heap;
}

static bool begin(struct mt_writer *w)
{
    w->reach_page = UINT64_MAX;
    if (!w->reach.reached && !writer_failed(w) && !reach_init(&w->reach, w->map.used))
        mt_fail_memory(&w->out.err);
    return !writer_failed(w);
}

void mt_writer_pointer(struct mt_writer *w, uint64_t at, uint64_t value, bool allocator)
{
    if (!w->reach.reached && !begin(w))
        return;
    const uint32_t to = blockmap_candidate(&w->map, value);
    if (to == NO_SLOT || to >= w->reach.nodes || !is_to_be_reached(w, w->map.blocks[to].heap))
        return;
    const uint64_t offset = value - w->map.blocks[to].base;
    if (offset && offset >= w->map.blocks[to].size)
        return;
    const uint32_t from = blockmap_find(&w->map, at);
    if (from < w->reach.nodes && is_to_be_reached(w, w->map.blocks[from].heap)) {
        if (!reach_edge(&w->reach, from, to, offset != 0))
            mt_fail_memory(&w->out.err);
    } else if (from != NO_SLOT || !is_left_over(w, at, allocator)) {
        reach_root(&w->reach, to, offset != 0);
    }
}

/* Write a REACH event for each block that is not fully reachable. */
static void write_reached(struct mt_writer *w, const bool *counts)
{
    struct buffer *b;
    for (uint32_t slot = 0; slot < w->reach.nodes; slot++) {
        if (!counts[slot] || reach_of(&w->reach, slot) == MT_REACH_FULL)
            continue;
        if (!(b = writer_begin_event(w, MT_REACH)))
            return;
        put_reach(b, &(struct rec_reach){slot, reach_of(&w->reach, slot)});
        writer_end_event(w);
    }
}

/* If all events were written, an info states that the search was done. Without it, a block without a REACH event
 * may be one that was not examined. */
void mt_writer_reach(struct mt_writer *w)
{
    if (!w->reach.reached && !begin(w))
        return;
    bool *counts = calloc((size_t)w->reach.nodes + 1, sizeof *counts);
    for (uint32_t slot = 0; counts && slot < w->reach.nodes; slot++) {
        const struct block *b = &w->map.blocks[slot];
        counts[slot] = b->heap != DEAD_HEAP && is_to_be_reached(w, b->heap);
    }
    if (!counts || !reach_search(&w->reach, counts))
        mt_fail_memory(&w->out.err);
    else
        write_reached(w, counts);
    free(counts);
    reach_free(&w->reach);
    mt_writer_flush(w);
    mt_writer_info(w, MT_INFO_REACH, "done");
}
