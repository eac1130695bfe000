/* children.h - how many forked children of the program are recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Children of the native recorder count themselves in the ring of their parent as soon as they know. A program that goes into
 * the background ends at once after the fork, so at its end the collector waits for those that are on their way.
 * Valgrind's tool makes the recording of a child before it runs.
 */
#ifndef LJTRACE_COLLECTOR_CHILDREN_H
#define LJTRACE_COLLECTOR_CHILDREN_H

#include "ljtrace/collector/collector.h"

/* At the end: wait until each child knows whether it is recorded, but not for long: it may have been killed. */
void children_await(const struct collector *c);
/* How many are recorded, and how many are not. The ring's header is also the program's, so it may say anything. */
uint32_t children_recorded(const struct collector *c);
uint32_t children_unrecorded(const struct collector *c);

#endif
