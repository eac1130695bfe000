/* limit.c - a file of limited size: what does not fit is counted and told at the end.
 *
 * The writer goes on as ever, so that the count is exact (what is heap depends on all events before); only
 * the chunks are not written. The file then ends as if nothing had come after the last chunk that fitted,
 * but for one event, MT_LOST, and the time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/writer_impl.h"

#include <string.h>

/* Below this limit chunks are made smaller, so that more of the allowed bytes are used. */
#define SMALL_LIMIT (64u << 20)
#define SMALL_CHUNK (1u << 16)

/* A forked child's file has begun already, with what it inherits: that must be out before chunks get smaller,
 * and the reason can be given only if it has found room. */
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
    buffer_reset(&w->defs); /* of events that are not in the file */
    writer_start_chunk(w);
    mt_writer_lost(w, lost, w->limit_reason);
    mt_writer_flush(w);
}
