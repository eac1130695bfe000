/* legend.h - the legend of pictures of the heap, and numbers as text.
 *
 * It is shared by frame, strip and poster, so that a colour has the same name on all of them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_LEGEND_H
#define DRIVERS_PAINTER_LEGEND_H

#include "drivers/film/scene.h"
#include "drivers/painter/canvas.h"

#include <stddef.h>

struct key {
    const char *name;
    uint32_t colour;
    uint32_t outline; /* colour of the outline, 0 = none */
};

/* Draw squares, each followed by its name, in one line of text of this size from (x, y). Those that do not fit into the
 * width of the picture are omitted. */
void legend_paint(struct canvas *c, int x, int y, int text, const struct key *keys, size_t count);

enum { NUMBER_TEXT = 28, TIME_TEXT = 64 };
/* A number of bytes as text: exact below 1024, otherwise in a readable unit: "10.1 MiB". */
const char *legend_bytes(char out[NUMBER_TEXT], uint64_t bytes);
/* A number with separators for thousands: "1,500,000". */
const char *legend_count(char out[NUMBER_TEXT], uint64_t n);
/* An amount of a film's time: "5.4 MiB allocated", "1,500 operations". */
const char *legend_time(char out[TIME_TEXT], enum film_time unit, uint64_t amount);

#endif
