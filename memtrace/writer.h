/* writer.h - the state of `struct mt_writer`, shared by writer.c and writer_defs.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITER_H
#define MEMTRACE_WRITER_H

#include "encode.h"
#include "intern.h"
#include "output.h"

/* Definitions made so far, by kind; as in the BASE record. */
struct def_counts {
    uint64_t strings, frames, stacks, sites, heaps, infos;
};

struct mt_writer {
    struct output out;
    struct encoder enc;
    struct blockmap map;
    struct buffer defs; /* DEFS chunk being made */
    struct intern strings, stacks;
    struct def_counts counts;  /* all */
    struct def_counts written; /* those in chunks before the one being made */
    struct mt_totals totals;
    uint32_t chunk_events;
    uint16_t thread;       /* of the events that come */
    uint16_t chunk_thread; /* what a reader of this chunk thinks */
    uint64_t chunk_first_event, chunk_first_handle, chunk_instructions;
    uint64_t handles;
};

bool writer_defs_init(struct mt_writer *w);
void writer_defs_free(struct mt_writer *w);
/* Write the definitions made since the last time as a chunk, if there are any. */
void writer_defs_flush(struct mt_writer *w);

static inline bool writer_failed(const struct mt_writer *w)
{
    return w->out.err.code != MT_E_NONE;
}

#endif
