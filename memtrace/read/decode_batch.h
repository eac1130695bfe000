/* decode_batch.h - segments that are handed on as such (batch.h); used by decoder.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DECODE_BATCH_H
#define MEMTRACE_READ_DECODE_BATCH_H

#include "memtrace/read/decoder.h"

/* The events of a segment that ran with its words at these places: at most MT_SEGMENT_MOST; how many.
 * decoder.c's. */
size_t decoder_segment_events(struct decoder *d, struct mt_event *ev, uint32_t line,
                              const struct mt_place *places);

/* Tell of segments by their segments and places: those of the run and the miss at hand and of the tokens that
 * follow, as many as the batch has room for, up to a rare record or a segment of which events are made; how
 * many events.
 */
size_t decoder_pack_segments(struct decoder *d, struct mt_event *ev);

#endif
