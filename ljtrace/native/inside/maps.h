/* maps.h - what the program maps itself, and requests to look at its pages (--pages).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_MAPS_H
#define LJTRACE_NATIVE_INSIDE_MAPS_H

#include <stdbool.h>

/* Find the functions that come after those of this library. */
void maps_begin(void);
/* Is the function of this name needed to record what is asked? Not those that map memory, without --pages. */
bool maps_needs(const char *name);
/* Ask the collector to look at the pages, and wait until it has. name: of the mark; NULL = the program is about to end. Between
 * native_enter and native_leave, or while the ring is locked. Nothing happens without --pages, and not in a sandbox. */
void maps_look(const char *name, unsigned bytes);

#endif
