/* syscall_access.c - records memory read or written by system calls: divides a range into the blocks that it covers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/writer_impl.h"

/* An access of a system call. */
struct touch {
    enum mt_kind kind;
    uint64_t last; /* address of the last byte */
    uint64_t hits;
};

/* The lowest block of a map that overlaps [first, last], or NULL. */
static const struct block *lowest(const struct blockmap *m, uint64_t first, uint64_t last)
{
    uint32_t slot = NO_SLOT, next;
    while ((next = blockmap_overlap(m, first, last - first + 1, NO_SLOT)) != NO_SLOT) {
        slot = next;
        if (m->blocks[slot].base <= first)
            break;
        last = m->blocks[slot].base - 1;
    }
    return slot == NO_SLOT ? NULL : &m->blocks[slot];
}

/* The part of the block in [first, last]: moves *first to its beginning and returns its number of bytes. */
static uint64_t part(const struct block *b, uint64_t *first, uint64_t last)
{
    uint64_t end = span_last(b->base, b->size);
    *first = b->base > *first ? b->base : *first;
    return b->size ? (end < last ? end : last) - *first + 1 : 0;
}

static void touch_freed(struct mt_writer *w, struct touch *t, const struct block *b, uint64_t addr,
                        uint64_t size)
{
    struct buffer *out = writer_begin_freed(w);
    if (!out)
        return;
    put_freed(out, &(struct rec_freed){w->totals.instructions, 0, t->kind, addr, size, b->handle,
                                       addr - freed_base(&w->freed, b), b->heap});
    writer_end_event(w);
    t->hits++;
}

/* Record accesses to freed memory in a range without live blocks. */
static void touch_freed_range(struct mt_writer *w, struct touch *t, uint64_t first, uint64_t last)
{
    const struct block *b;
    while ((b = lowest(&w->freed.map, first, last))) {
        uint64_t size = part(b, &first, last);
        if (size)
            touch_freed(w, t, b, first, size);
        if (last - first < (size ? size : 1))
            return;
        first += size ? size : 1;
    }
}

/* Record an access to a range without live blocks if its first byte is beside a block. */
static void touch_beside(struct mt_writer *w, struct touch *t, uint64_t first, uint64_t last)
{
    uint32_t slot = blockmap_beside(&w->map, first, 1, w->beside, 0);
    if (slot == NO_SLOT || freed_find(&w->freed, first) || unsampled_find(&w->unsampled, first) != NO_SLOT)
        return;
    struct buffer *out = writer_begin_freed(w);
    if (!out)
        return;
    put_beside(out, &(struct rec_beside){w->totals.instructions, 0, t->kind, first, last - first + 1, slot});
    writer_end_event(w);
    t->hits++;
}

static void touch_live(struct mt_writer *w, struct touch *t, const struct block *b, uint64_t addr,
                       uint64_t size)
{
    uint32_t slot = (uint32_t)(b - w->map.blocks);
    struct buffer *out = writer_begin_event(w, t->kind);
    if (!out)
        return;
    put_touch(out, &(struct rec_touch){w->totals.instructions, t->kind, slot, addr - b->base, size});
    writer_end_event(w);
    t->hits++;
}

void mt_writer_touch(struct mt_writer *w, enum mt_kind kind, uint64_t addr, uint64_t size)
{
    size = span_fits(addr, size) ? size : 0 - addr;
    struct touch t = {kind >= MT_LOAD && kind <= MT_MODIFY ? kind : MT_LOAD, span_last(addr, size), 0};
    bool more = size > 0;
    while (more && !writer_failed(w)) {
        const struct block *b = lowest(&w->map, addr, t.last);
        uint64_t start = addr, n = b ? part(b, &start, t.last) : 0;
        uint64_t gap_end = b ? start - 1 : t.last;
        if (!b || start > addr) {
            touch_beside(w, &t, addr, gap_end);
            touch_freed_range(w, &t, addr, gap_end);
        }
        if (n)
            touch_live(w, &t, b, start, n);
        more = b && t.last - start >= (n ? n : 1);
        addr = start + (n ? n : 1);
    }
    if (size && t.hits == 0)
        w->totals.foreign += !writer_failed(w);
}
