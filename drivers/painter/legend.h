/* legend.h - the legend of pictures of the heap, and numbers as text.
 *
 * It is shared by frame, strip and poster, so that a colour has the same name on all of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_LEGEND_H
#define DRIVERS_PAINTER_LEGEND_H

#include "drivers/film/keys.h"
#include "drivers/film/scene.h"
#include "drivers/painter/canvas.h"

#include <stddef.h>

/* Draw squares, each followed by its name, in at most `lines` lines of text of this size from (x, y), as wide as the
 * picture. If they do not fit, the end says how many more there are. Returns their number. */
size_t legend_paint(struct canvas *c, int x, int y, int text, int lines, struct keys keys);

enum { NUMBER_TEXT = 28, TIME_TEXT = 64 };
/* A number of bytes as text: exact below 1024, otherwise in a readable unit: "10.1 MiB". */
const char *legend_bytes(char out[NUMBER_TEXT], uint64_t bytes);
/* The same for a tick: a fraction has one digit, or two if it is a quarter, and is left out from 100 on: "2.25 MiB",
 * "512 KiB". */
const char *legend_tick_bytes(char out[NUMBER_TEXT], uint64_t bytes);
/* A number for a tick, in thousands (k), millions (M), 10^9 (G) or 10^12 (T): "1.5 M". */
const char *legend_tick_count(char out[NUMBER_TEXT], uint64_t n);
/* A number with separators for thousands: "1,500,000". */
const char *legend_count(char out[NUMBER_TEXT], uint64_t n);
/* An amount of a film's time: "5.4 MiB allocated", "1,500 operations". */
const char *legend_time(char out[TIME_TEXT], enum film_time unit, uint64_t amount);

#endif
