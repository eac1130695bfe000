/* checkpoint.c - writes checkpoints: CHECKPOINT chunks that list all live blocks, so that a reader can begin there.
 *
 * Checkpoints repeat information of the events before them. They are written rarely enough to stay below two percent
 * of the file, however many blocks are live.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/write/writer_impl.h"

/* Minimum number of EVENTS chunks between two checkpoints. */
#define CHECKPOINT_INTERVAL 4
/* Minimum bytes of other chunks for each byte of a checkpoint, and the estimated size of a checkpoint. */
#define CHECKPOINT_SHARE 50
#define CHECKPOINT_BLOCK_BYTES 8
#define CHECKPOINT_CHUNK_BYTES 200
/* Maximum number of blocks in one CHECKPOINT chunk. It is far below what the format allows. */
#define CHECKPOINT_PART (1u << 20)

static bool is_due(const struct mt_writer *w)
{
    uint64_t cost = CHECKPOINT_CHUNK_BYTES + CHECKPOINT_BLOCK_BYTES * w->map.live;
    if (w->out.full || w->cut_off || (w->out.limit && w->out.written + 2 * cost > w->out.limit))
        return false;
    if (w->checkpoint_interval)
        return w->chunks_since_checkpoint >= w->checkpoint_interval;
    return w->chunks_since_checkpoint >= CHECKPOINT_INTERVAL &&
           w->out.written - w->checkpoint_written >= CHECKPOINT_SHARE * cost;
}

static void write_part(struct mt_writer *w, struct buffer *b)
{
    struct chunk_header h = {.type = CHUNK_CHECKPOINT,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->handles,
                             .instructions = w->totals.instructions};
    if (b->failed)
        mt_fail_memory(&w->out.err);
    chunk_writer_put(&w->out, &h, b);
    buffer_reset(b);
}

static void write_checkpoint(struct mt_writer *w)
{
    struct buffer b = {0};
    uint64_t done = 0;
    put_checkpoint(&b, &(struct rec_checkpoint){w->map.live, 0});
    for (uint32_t slot = 0; slot < w->map.used; slot++) {
        const struct block *block = &w->map.blocks[slot];
        if (block->heap == DEAD_HEAP)
            continue;
        if (done && done % CHECKPOINT_PART == 0) {
            write_part(w, &b);
            put_checkpoint(&b, &(struct rec_checkpoint){w->map.live, done});
        }
        put_block(&b, &(struct rec_block){slot, block->handle, block->base, block->size, block->heap});
        done++;
    }
    write_part(w, &b);
    buffer_free(&b);
}

void writer_checkpoint(struct mt_writer *w)
{
    w->chunks_since_checkpoint++;
    if (writer_failed(w) || !is_due(w))
        return;
    write_checkpoint(w);
    w->chunks_since_checkpoint = 0;
    w->checkpoint_written = w->out.written;
}
