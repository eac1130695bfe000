/* geometry.c - lays out the parts of a picture.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/geometry.h"

enum { MARGIN = PICTURE_MARGIN, LEAST_TEXT = 11, LARGEST_CELL = 16, LEAST_CELL = 4, GRAIN = 16 };

/* Letters grow with the picture. */
static struct geometry of_size(uint32_t width, uint32_t height)
{
    int text = (int)height / 45;
    struct geometry g = {.width = (int)width, .height = (int)height, .left = MARGIN};
    g.text = text < LEAST_TEXT ? LEAST_TEXT : text;
    g.line = g.text * 5 / 4;
    g.top = 2 * MARGIN + g.line;
    g.legend = g.height - MARGIN - g.line;
    return g;
}

/* The largest cell size at which there is a cell for every 16 bytes, within limits. */
struct geometry geometry_of_frame(uint32_t width, uint32_t height, uint64_t extent)
{
    struct geometry g = of_size(width, height);
    g.strip_height = g.text * 9 / 2;
    g.strip = g.legend - MARGIN - g.strip_height;
    int room = g.strip - MARGIN / 2 - g.line - MARGIN - g.top;
    for (g.cell = LARGEST_CELL; g.cell >= LEAST_CELL; g.cell--) {
        g.columns = (g.width - 2 * MARGIN) / g.cell;
        g.rows = room / g.cell;
        if ((uint64_t)g.columns * (uint64_t)g.rows * GRAIN >= extent)
            break;
    }
    if (g.cell < LEAST_CELL)
        g.cell = LEAST_CELL;
    return g;
}

struct geometry geometry_of_poster(uint32_t width, uint32_t height)
{
    struct geometry g = of_size(width, height);
    g.cell = 1;
    g.columns = g.width - 2 * MARGIN;
    g.rows = g.legend - MARGIN - g.top;
    return g;
}
