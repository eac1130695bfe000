/* decode_access.h - makes the event of an access; used by decoder.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DECODE_ACCESS_H
#define MEMTRACE_READ_DECODE_ACCESS_H

#include "memtrace/read/decoder.h"

/* Values that all events of a run share. They are copied to local variables, because the compiler cannot exclude
 * that writing events changes the originals. */
struct run_state {
    const struct live_block *blocks;
    uint64_t time;
    uint32_t block_count;
    uint16_t thread;
};

static inline struct run_state run_state(const struct decoder *d)
{
    return (struct run_state){d->blocks, d->streams[STREAM_RARE].time, d->block_count, d->thread};
}

static inline void set_access(const struct run_state *run, struct mt_event *ev, uint32_t site, uint32_t size,
                              uint8_t kind, uint32_t slot, uint64_t offset)
{
    const struct live_block *b = &run->blocks[slot];
    *ev = (struct mt_event){.addr = b->base + offset,
                            .size = size,
                            .handle = b->handle,
                            .time = run->time,
                            .offset = offset,
                            .ref = site,
                            .thread = run->thread,
                            .kind = kind,
                            .beyond = size > b->size - offset,
                            .heap = b->heap,
                            .slot = slot};
}

#endif
