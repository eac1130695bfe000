/* looks.h - when the collector looks at the pages of the program (--pages).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * At a mark and at its end the program waits, and all its records were read. Else it goes on: a look begins, and it
 * ends when the records that were in the ring at its beginning have been read, since they say what the program had
 * mapped by then.
 */
#ifndef LJTRACE_COLLECTOR_LOOKS_H
#define LJTRACE_COLLECTOR_LOOKS_H

#include "ljtrace/collector/collector.h"

/* May a look begin without a request? Not before the blocks from before the attach are known. */
bool looks_may_begin(const struct collector *c);
/* Is it time to begin a look, and why? NULL = no. */
const char *looks_due(struct collector *c);
/* Begin to look while the program goes on. What it had mapped by now may have been unmapped again when that is known. */
void looks_begin(struct collector *c, const char *reason);
/* Write what was seen by the look that has begun, if one has. */
void looks_end(struct collector *c);
/* The look that has begun, if one has, is none. */
void looks_forget(struct collector *c);
/* Release the slab that was read. If the program has asked to look at its pages, it waits for that: until all is read at its
 * end, else until the rest can be read while it goes on. */
void looks_release(struct collector *c);

#endif
