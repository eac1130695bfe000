/* bad_free.c - reports frees that are errors of the program: the kind of the error, and the block concerned.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/writer_impl.h"

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

void writer_bad_free(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
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

bool writer_lacks_new(struct mt_writer *w, uint64_t addr)
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

void mt_writer_lacks_news(struct mt_writer *w, bool lacks)
{
    w->lacks_news = lacks;
}

uint64_t mt_writer_older(const struct mt_writer *w)
{
    return w->older;
}

uint64_t mt_writer_orphans(const struct mt_writer *w)
{
    return w->orphans;
}

/* The family of functions that `how` belongs to: malloc, calloc, realloc and memalign share one function to free. */
static enum mt_how family(enum mt_how how)
{
    return how <= MT_HOW_MEMALIGN ? MT_HOW_MALLOC : how;
}

void writer_check_how(struct mt_writer *w, uint32_t slot, enum mt_how how, uint32_t stack)
{
    struct block b = w->map.blocks[slot];
    enum mt_how made = note_how(b.note);
    if (how < MT_HOWS && family(how) != family(made) && writer_is_certain(w, &b))
        put_bad(w, MT_BADFREE_MISMATCH, &b, b.base, b.heap, stack);
}
