/* limit.c - limits the size of a file.
 *
 * When the limit is reached, the writer continues to process events, because their number is reported at the end, and
 * whether an access is to the heap depends on all events before it. It stops writing chunks of events. The file then
 * ends as if nothing had happened after the last chunk that fit, except for one MT_LOST event and the end time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/writer_impl.h"

#include <string.h>

/* Below this limit, chunks have fewer events, so that more of the allowed bytes can be used. */
#define SMALL_LIMIT (64u << 20)
#define SMALL_CHUNK (1u << 16)

/* The file of a forked child already contains the inherited blocks. They are written before the chunks get
 * smaller. If the definition of the reason does not fit into the file, no reason is given. */
void mt_writer_limit(struct mt_writer *w, uint64_t bytes, const char *reason)
{
    uint32_t string = mt_writer_string(w, reason, strlen(reason));
    chunk_writer_foreground(&w->out);
    w->out.limit = bytes;
    writer_defs_flush(w);
    w->limit_reason = w->out.full ? 0 : string;
    mt_writer_flush(w);
    if (bytes < SMALL_LIMIT && w->chunk_events > SMALL_CHUNK) {
        w->chunk_events = SMALL_CHUNK;
        writer_start_chunk(w);
    }
}

void writer_note_kept(struct mt_writer *w)
{
    if (w->out.limit == 0 || w->out.full)
        return;
    w->kept = w->totals;
    w->kept_handles = w->handles;
}

static uint64_t count(const struct mt_totals *t)
{
    uint64_t n = t->freed;
    for (unsigned kind = 0; kind < MT_KINDS; kind++)
        n += t->events[kind];
    return n;
}

uint64_t mt_writer_limited(const struct mt_writer *w)
{
    return w->out.full ? count(&w->totals) - count(&w->kept) : 0;
}

void writer_end_limited(struct mt_writer *w)
{
    uint64_t lost = mt_writer_limited(w), now = w->totals.instructions;
    if (!w->out.full)
        return;
    w->totals = w->kept;
    w->totals.instructions = now;
    w->handles = w->kept_handles;
    w->out.full = false;
    w->out.limit = 0;
    w->cut_off = true;
    buffer_reset(&w->defs); /* definitions of events that are not in the file */
    writer_start_chunk(w);
    mt_writer_lost(w, lost, w->limit_reason);
    mt_writer_flush(w);
}
