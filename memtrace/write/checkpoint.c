/* checkpoint.c - LIVE chunks: all live blocks, written now and then, so that a reader can begin there.
 *
 * They repeat what the events before say. They are written so seldom that they stay below two percent of the
 * file, however many blocks live.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/write/writer_impl.h"

/* EVENTS chunks between two states, at least. */
#define LIVE_INTERVAL 4
/* Bytes of other chunks for each byte of state, at least; and what a state takes. */
#define LIVE_SHARE 50
#define LIVE_BLOCK_BYTES 8
#define LIVE_CHUNK_BYTES 200
/* Blocks in one LIVE chunk: far below what the format allows. */
#define LIVE_PART (1u << 20)

static bool is_due(const struct mt_writer *w)
{
    uint64_t cost = LIVE_CHUNK_BYTES + LIVE_BLOCK_BYTES * w->map.live;
    if (w->out.full || w->cut_off || (w->out.limit && w->out.written + 2 * cost > w->out.limit))
        return false;
    if (w->live_interval)
        return w->live_chunks >= w->live_interval;
    return w->live_chunks >= LIVE_INTERVAL && w->out.written - w->live_written >= LIVE_SHARE * cost;
}

static void write_part(struct mt_writer *w, struct buffer *b)
{
    struct chunk_header h = {.type = CHUNK_LIVE,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->handles,
                             .instructions = w->totals.instructions};
    if (b->failed)
        mt_fail_memory(&w->out.err);
    output_chunk(&w->out, &h, b);
    buffer_reset(b);
}

static void write_state(struct mt_writer *w)
{
    struct buffer b = {0};
    uint64_t done = 0;
    put_state(&b, &(struct rec_state){w->map.live, 0});
    for (uint32_t slot = 0; slot < w->map.used; slot++) {
        const struct block *block = &w->map.blocks[slot];
        if (block->heap == DEAD_HEAP)
            continue;
        if (done && done % LIVE_PART == 0) {
            write_part(w, &b);
            put_state(&b, &(struct rec_state){w->map.live, done});
        }
        put_block(&b, &(struct rec_block){slot, block->handle, block->base, block->size, block->heap});
        done++;
    }
    write_part(w, &b);
    buffer_free(&b);
}

void writer_live(struct mt_writer *w)
{
    w->live_chunks++;
    if (writer_failed(w) || !is_due(w))
        return;
    write_state(w);
    w->live_chunks = 0;
    w->live_written = w->out.written;
}
