/* unsampled.c - the blocks that a sample by blocks leaves out; see unsampled.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/unsampled.h"
#include "memtrace/write/writer_impl.h"

#include <inttypes.h>
#include <stdio.h>

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

bool unsampled_is_concerned(const struct unsampled *u, uint64_t addr)
{
    return u->sample.every && (blockmap_at(&u->map, addr) != NO_SLOT ||
                               blockmap_find(&u->map, addr) != NO_SLOT || freed_at(&u->freed, addr));
}

bool unsampled_add(struct unsampled *u, const struct block *b)
{
    const uint32_t slot = blockmap_add(&u->map, b->base, b->size, b->heap, MT_NO_HANDLE);
    if (slot == NO_SLOT)
        return false;
    u->map.blocks[slot].note = b->note;
    return true;
}

bool unsampled_move(struct unsampled *u, uint32_t slot, uint64_t addr, uint64_t size, uint32_t note)
{
    struct block *b = &u->map.blocks[slot], old = *b;
    b->note = note;
    if (!blockmap_move(&u->map, slot, addr, size))
        return false;
    return span_last(old.base, old.size) >= addr && old.base <= span_last(addr, size)
               ? true
               : freed_add(&u->freed, &old);
}

bool unsampled_end(struct unsampled *u, uint32_t slot, bool keep)
{
    const struct block dead = u->map.blocks[slot];
    blockmap_remove(&u->map, slot);
    return !keep || freed_add(&u->freed, &dead);
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
