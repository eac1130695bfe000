/* geometry.c - lays out the parts of a picture.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/geometry.h"
#include "drivers/film/keys.h"

enum {
    MARGIN = PICTURE_MARGIN,
    GAP = PICTURE_GAP,
    LEAST_TEXT = 11,
    LARGEST_CELL = 16,
    LEAST_CELL = 4,
    GRAIN = 16
};
/* A narrow picture has no column of addresses; a low one has a lower strip. */
enum { LEAST_LABELLED = 400, LEAST_HIGH = 300 };

/* Letters grow with the picture, as long as a legend has room beside them. Along a curve, addresses are in no column. */
static struct geometry of_size(const struct film_size *f, struct keys keys, bool labelled)
{
    int high = (int)f->height / 45, wide = (int)f->width / 28, text = high < wide ? high : wide;
    struct geometry g = {.width = (int)f->width, .height = (int)f->height};
    g.text = text < LEAST_TEXT ? LEAST_TEXT : text;
    g.line = g.text * 5 / 4;
    g.labels = labelled && g.width >= LEAST_LABELLED ? 11 * g.text / 2 : 0;
    g.left = MARGIN + g.labels + (g.labels ? GAP : 0);
    g.top = 2 * MARGIN + g.line;
    g.legend_lines = keys_lines(keys, g.text, g.width - 2 * MARGIN);
    g.legend = g.height - MARGIN - g.legend_lines * g.line;
    g.times = g.legend - GAP - g.line;
    return g;
}

/* The largest cell size at which there is a cell for every 16 bytes, within limits. */
struct geometry geometry_of_frame(const struct film_size *f)
{
    struct geometry g = of_size(f, keys_of_frame(f), f->layout == CELLS_ROWS);
    g.strip_height = g.height < LEAST_HIGH ? g.text * 5 / 2 : g.text * 9 / 2;
    g.strip = g.times - GAP - g.strip_height;
    g.strip_lines = keys_lines(keys_of_strip(), g.text, g.width - 2 * MARGIN);
    g.strip_keys = g.strip - GAP - g.strip_lines * g.line;
    int room = g.strip_keys - GAP - g.top;
    for (g.cell = LARGEST_CELL; g.cell >= LEAST_CELL; g.cell--) {
        g.columns = (g.width - MARGIN - g.left) / g.cell;
        g.rows = room / g.cell;
        if ((uint64_t)g.columns * (uint64_t)g.rows * GRAIN >= f->extent)
            break;
    }
    if (g.cell < LEAST_CELL)
        g.cell = LEAST_CELL;
    return g;
}

struct geometry geometry_of_poster(const struct film_size *f)
{
    struct geometry g = of_size(f, keys_of_poster(f), true);
    g.cell = 1;
    g.columns = g.width - MARGIN - g.left;
    g.rows = g.times - GAP - g.top;
    return g;
}

uint64_t geometry_cell_bytes(uint64_t extent, uint64_t cells)
{
    uint64_t bytes = (extent + cells - 1) / cells, whole = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    return whole ? whole : GRAIN;
}
