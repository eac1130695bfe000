/* decode_batch.h - decodes segments into batches (batch.h); used by decoder.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DECODE_BATCH_H
#define MEMTRACE_READ_DECODE_BATCH_H

#include "memtrace/read/decoder.h"

/* Make the events of a segment whose words are at these places and return their number, at most MT_SEGMENT_MOST.
 * Implemented in decoder.c. */
size_t decoder_segment_events(struct decoder *d, struct mt_event *ev, uint32_t line,
                              const struct mt_place *places);

/* Add segments to the batch: the current run, the segment after it, and those of the following tokens. Stops when
 * the batch is full, at a rare record, or at a segment that has to be delivered as events. Returns the number of
 * events made. */
size_t decoder_pack_segments(struct decoder *d, struct mt_event *ev);

#endif
