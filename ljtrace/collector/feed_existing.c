/* feed_existing.c - handles the blocks of malloc from before ljtrace attach.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * They come from a copy of the process, which was made a moment after the recording had begun. A thread may have recorded the
 * free of a block, and not done it yet: then the block is in the list, although it ends. So addresses that were freed since the
 * beginning are kept until the list is complete. A block that was allocated meanwhile is in the list, too, if its New comes
 * later; the writer replaces it then.
 */
#include "ljtrace/collector/feed_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void feed_await_existing(struct feed *f)
{
    f->existing.awaited = true;
}

bool feed_awaits_existing(const struct feed *f)
{
    return f->existing.awaited;
}

void feed_existing_free(struct feed *f, uint64_t addr)
{
    map_set(&f->existing.freed, addr, 1);
}

static uint32_t stack_of_existing(struct feed *f)
{
    const struct mt_frame frame = {
        .function = mt_writer_string(f->writer, MT_BEFORE_ATTACH, strlen(MT_BEFORE_ATTACH))};
    return mt_writer_stack(f->writer, 0, mt_writer_frame(f->writer, &frame));
}

const char *handle_existing(struct feed *f, const struct ring_existing *r)
{
    uint32_t freed;
    if (!f->existing.awaited)
        return "blocks from before the recording that nobody awaits";
    if (!f->existing.stack)
        f->existing.stack = stack_of_existing(f);
    for (uint32_t i = 0; i < r->blocks_count; i++)
        if (!map_get(&f->existing.freed, r->blocks[i].addr, &freed) &&
            mt_writer_block_earlier(f->writer, r->blocks[i].addr, r->blocks[i].size, feed_heap(f, RAW_HEAP_C),
                                    f->existing.stack)) {
            f->existing.blocks++;
            f->existing.bytes += r->blocks[i].size;
        }
    return NULL;
}

static void put_number(struct feed *f, const char *key, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    mt_writer_info(f->writer, key, text);
}

static void end_existing(struct feed *f, const char *problem)
{
    if (!f->existing.awaited)
        return;
    f->existing.awaited = false;
    map_clear(&f->existing.freed);
    put_number(f, "existing_blocks", f->existing.blocks);
    put_number(f, "existing_bytes", f->existing.bytes);
    snprintf(f->existing.problem, sizeof f->existing.problem, "%s", problem);
    if (*problem)
        mt_writer_info(f->writer, "existing_problem", problem);
}

const char *handle_existing_end(struct feed *f, const struct ring_existing_end *r)
{
    char problem[sizeof f->existing.problem];
    snprintf(problem, sizeof problem, "%.*s", (int)r->problem.bytes, r->problem.at);
    end_existing(f, problem);
    return NULL;
}

void feed_existing_failed(struct feed *f)
{
    end_existing(f, f->existing.blocks ? "not all of them: the process that reads them ended early"
                                       : "the process that reads them ended early");
}

const char *feed_existing_problem(const struct feed *f)
{
    return f->existing.problem[0] ? f->existing.problem : NULL;
}
