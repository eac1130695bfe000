/* decode_records.h - reads the rare records of an EVENTS chunk; used by decoder.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DECODE_RECORDS_H
#define MEMTRACE_READ_DECODE_RECORDS_H

#include "memtrace/read/decoder.h"

enum rare_result { RARE_NONE, RARE_EVENT, RARE_STOP };

/* Read one record, apply it to the state, and fill *ev if it is an event. On error, d->wrong is set. */
enum rare_result decode_rare(struct decoder *d, struct mt_event *ev);

/* Prefetch the block that the next record frees or resizes, also if a change of the thread precedes it. */
void decode_rare_ahead(const struct decoder *d);

#endif
