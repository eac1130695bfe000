/* legend.h - what is written on the pictures of the heap: keys to their colours, and numbers.
 *
 * Shared by film, strip and poster, so that the same colour has the same name on all of them. It knows
 * nothing of what the pictures show.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_LEGEND_H
#define DRIVERS_FILM_LEGEND_H

#include "drivers/film/canvas.h"

#include <stddef.h>

struct key {
    const char *name;
    uint32_t colour;
    uint32_t outline; /* colour around it, 0: none */
};

/* Squares of the height of the letters, each with its name, in one line from (x, y) on. Those for which the
 * picture is not wide enough are left out. */
void legend_paint(struct canvas *c, int x, int y, int scale, const struct key *keys, size_t count);

enum { NUMBER_TEXT = 28 };
/* A number of bytes, exactly where it is below 1024, else in a unit that leaves it readable: "10.1 MiB". */
const char *legend_bytes(char out[NUMBER_TEXT], uint64_t bytes);
/* A number with its thousands set apart: "1,500,000". */
const char *legend_count(char out[NUMBER_TEXT], uint64_t n);

#endif
