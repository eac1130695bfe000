/* survivors.c - SURVIVORS chunks: which blocks live at the end, by the ordinals of memtrace/base/id_list.h.
 *
 * An ordinal counts News and Resizes, for to who counts a Resize as a Free and a New a block that is resized
 * is freed. Kept by slot, beside the map: its blocks are looked up for each access, and are no larger for
 * this.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/base/error.h"
#include "memtrace/base/id_list.h"
#include "memtrace/write/writer_impl.h"

#include <stdlib.h>

void writer_survivors_note(struct mt_writer *w, uint32_t slot)
{
    if (!array_reserve(&w->ordinals, &w->ordinals_room, slot + 1u, sizeof *w->ordinals)) {
        mt_fail_memory(&w->out.err);
        return;
    }
    w->ordinals[slot] = w->totals.events[MT_NEW] + w->totals.events[MT_RESIZE] - 1;
}

void writer_survivors_free(struct mt_writer *w)
{
    free(w->ordinals);
}

static void write_piece(struct mt_writer *w, struct buffer *b)
{
    struct chunk_header h = {.type = CHUNK_SURVIVORS,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->handles,
                             .instructions = w->totals.instructions};
    chunk_writer_put(&w->out, &h, b);
    buffer_reset(b);
}

static void write_list(struct mt_writer *w, const uint64_t *list, size_t n)
{
    struct buffer b = {0};
    uint64_t next = 0;
    do {
        if (buffer_reserve(&b, ID_LIST_SIZE))
            b.p += id_list_write(b.p, &list, &n, &next);
        else
            mt_fail_memory(&w->out.err);
        write_piece(w, &b);
    } while (n && !writer_failed(w));
    buffer_free(&b);
}

/* Of live slots, moved to the front; nothing else is asked of these numbers any more. */
static size_t gather(struct mt_writer *w)
{
    size_t n = 0;
    for (uint32_t slot = 0; slot < w->map.used; slot++)
        if (w->map.blocks[slot].heap != DEAD_HEAP)
            w->ordinals[n++] = w->ordinals[slot];
    id_list_sort(w->ordinals, n);
    return n;
}

/* Where bytes are limited they are for events; and beyond the limit the map is further than the file. */
void writer_survivors(struct mt_writer *w)
{
    if (!w->out.limit && !w->cut_off && !writer_failed(w))
        write_list(w, w->ordinals, gather(w));
}
