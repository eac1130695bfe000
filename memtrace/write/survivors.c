/* survivors.c - writes SURVIVORS chunks: the blocks that are live at the end, as a list of memtrace/base/id_list.h.
 *
 * Each block is identified by the ordinal of its last New or Resize, counting both kinds together. Readers can then
 * treat a Resize as a Free followed by a New, in which case a resized block is a freed one. Ordinals are kept by slot
 * in an array of their own. Storing them in the block map would make its entries larger, which are read for each
 * access.
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

static void write_piece(struct mt_writer *w, enum chunk_type type, struct buffer *b)
{
    struct chunk_header h = {.type = (uint8_t)type,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->handles,
                             .instructions = w->totals.instructions};
    chunk_writer_put(&w->out, &h, b);
    buffer_reset(b);
}

void writer_list(struct mt_writer *w, enum chunk_type type, const uint64_t *list, size_t n)
{
    struct buffer b = {0};
    uint64_t next = 0;
    do {
        if (buffer_reserve(&b, ID_LIST_SIZE))
            b.p += id_list_write(b.p, &list, &n, &next);
        else
            mt_fail_memory(&w->out.err);
        write_piece(w, type, &b);
    } while (n && !writer_failed(w));
    buffer_free(&b);
}

/* Move the ordinals of live slots to the front of the array and sort them. The array is not used by slot
 * afterwards. */
static size_t gather(struct mt_writer *w)
{
    size_t n = 0;
    for (uint32_t slot = 0; slot < w->map.used; slot++)
        if (w->map.blocks[slot].heap != DEAD_HEAP)
            w->ordinals[n++] = w->ordinals[slot];
    id_list_sort(w->ordinals, n);
    return n;
}

/* Write the list, but not in a file of limited size: its bytes are needed for events, and after the limit is
 * reached the block map contains events that are not in the file. */
void writer_survivors(struct mt_writer *w)
{
    if (!w->out.limit && !w->cut_off && !writer_failed(w))
        writer_list(w, CHUNK_SURVIVORS, w->ordinals, gather(w));
}
