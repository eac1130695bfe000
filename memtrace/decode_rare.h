/* decode_rare.h - the rare records of an EVENTS chunk; used by decode.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_DECODE_RARE_H
#define MEMTRACE_DECODE_RARE_H

#include "decode.h"

enum rare_result { RARE_NONE, RARE_EVENT, RARE_STOP };

/* Read one record, change the state, and fill *ev if it is an event. On error d->wrong is set. */
enum rare_result decode_rare(struct decoder *d, struct mt_event *ev);

/* Ask for the block that the next record, or that behind a change of the thread, frees or resizes. */
void decode_rare_ahead(const struct decoder *d);

#endif
