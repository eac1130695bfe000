/* leaks.c - determines which live blocks the program can still reach when it ends.
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
    struct held h = writer_held_overlap(w, page, 1 << PAGE_BITS, NO_BLOCK);
    w->reach_page = page;
    w->reach_page_is_heap = h.slot != NO_SLOT && writer_held_block(w, h)->heap == 0;
    return w->reach_page_is_heap;
}

static bool begin(struct mt_writer *w)
{
    w->reach_page = UINT64_MAX;
    w->reach_recorded = w->map.used;
    if (!w->graph.reached && !writer_failed(w) &&
        !block_graph_init(&w->graph, w->map.used + w->unsampled.map.used))
        mt_fail_memory(&w->out.err);
    return !writer_failed(w);
}

/* The node of a block. */
static uint32_t node_of(const struct mt_writer *w, struct held h)
{
    return h.unsampled ? w->reach_recorded + h.slot : h.slot;
}

/* The block that a pointer to this address may point to: the address is in it or right at its beginning. */
static struct held target_of(struct mt_writer *w, uint64_t addr)
{
    struct held h = {blockmap_candidate(&w->map, addr), false};
    if (h.slot != NO_SLOT) {
        const uint64_t offset = addr - w->map.blocks[h.slot].base;
        if (offset == 0 || offset < w->map.blocks[h.slot].size)
            return h;
    }
    h = (struct held){w->unsampled.sample.every ? blockmap_candidate(&w->unsampled.map, addr) : NO_SLOT,
                      true};
    if (h.slot == NO_SLOT)
        return h;
    const uint64_t offset = addr - w->unsampled.map.blocks[h.slot].base;
    return offset == 0 || offset < w->unsampled.map.blocks[h.slot].size ? h : NO_BLOCK;
}

/* The block that contains a word. */
static struct held block_around(const struct mt_writer *w, uint64_t at)
{
    const struct held recorded = {blockmap_find(&w->map, at), false};
    return recorded.slot != NO_SLOT ? recorded : (struct held){unsampled_find(&w->unsampled, at), true};
}

void mt_writer_pointer(struct mt_writer *w, uint64_t at, uint64_t value, bool allocator)
{
    if (!w->graph.reached && !begin(w))
        return;
    const struct held to = target_of(w, value);
    if (to.slot == NO_SLOT || node_of(w, to) >= w->graph.nodes ||
        !is_to_be_reached(w, writer_held_block(w, to)->heap))
        return;
    const uint64_t offset = value - writer_held_block(w, to)->base;
    const struct held from = block_around(w, at);
    if (from.slot != NO_SLOT && is_to_be_reached(w, writer_held_block(w, from)->heap)) {
        if (!block_graph_edge(&w->graph, node_of(w, from), node_of(w, to), offset != 0))
            mt_fail_memory(&w->out.err);
    } else if (from.slot != NO_SLOT || !is_left_over(w, at, allocator)) {
        block_graph_root(&w->graph, node_of(w, to), offset != 0);
    }
}

/* Write a REACH event for each block that is not fully reachable. */
static void write_reached(struct mt_writer *w, const bool *counts)
{
    struct buffer *b;
    for (uint32_t slot = 0; slot < w->reach_recorded; slot++) {
        if (!counts[slot] || block_graph_reach(&w->graph, slot) == MT_REACH_FULL)
            continue;
        if (!(b = writer_begin_event(w, MT_REACH)))
            return;
        put_reach(b, &(struct rec_reach){slot, block_graph_reach(&w->graph, slot)});
        writer_end_event(w);
    }
}

/* If all events were written, an info states that the search was done. Without it, a block without a REACH event
 * may be one that was not examined. */
void mt_writer_reach(struct mt_writer *w)
{
    if (!w->graph.reached && !begin(w))
        return;
    bool *counts = calloc((size_t)w->graph.nodes + 1, sizeof *counts);
    for (uint32_t node = 0; counts && node < w->graph.nodes; node++) {
        const struct block *b = writer_held_block(w, writer_held_nth(w, node));
        counts[node] = b->heap != DEAD_HEAP && is_to_be_reached(w, b->heap);
    }
    if (!counts || !block_graph_search(&w->graph, counts))
        mt_fail_memory(&w->out.err);
    else
        write_reached(w, counts);
    free(counts);
    block_graph_free(&w->graph);
    mt_writer_flush(w);
    mt_writer_info(w, MT_INFO_REACH, "done");
}
