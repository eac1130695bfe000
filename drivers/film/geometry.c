/* geometry.c - lays out the parts of a picture.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/geometry.h"
#include "drivers/film/keys.h"

/* In pixels: the size of letters; the side of a cell; a narrow picture has no column of addresses; a low one has a
 * lower strip. */
enum { LEAST_TEXT = 11, LARGEST_CELL = 16, LEAST_CELL = 4, LEAST_LABELLED = 400, LEAST_HIGH = 300 };
/* In sizes of letters: a picture is so high and wide; in halves of them, the column of addresses and the strips are. */
enum { LETTERS_HIGH = 45, LETTERS_WIDE = 28, HALVES_LABELS = 11, HALVES_LOW_STRIP = 5, HALVES_STRIP = 9 };
/* A cell has a multiple of so many bytes: allocators align blocks to them. */
enum { GRAIN = 16 };

/* Letters grow with the picture, as long as a legend has room beside them. Along a curve, addresses are in no column. */
static struct geometry of_size(const struct film_size *f, struct keys keys, bool labelled)
{
    int high = (int)f->height / LETTERS_HIGH, wide = (int)f->width / LETTERS_WIDE,
        text = high < wide ? high : wide;
    struct geometry g = {.width = (int)f->width, .height = (int)f->height};
    g.text = text < LEAST_TEXT ? LEAST_TEXT : text;
    g.line = line_height(g.text);
    g.labels = labelled && g.width >= LEAST_LABELLED ? HALVES_LABELS * g.text / 2 : 0;
    g.left = PICTURE_MARGIN + g.labels + (g.labels ? PICTURE_GAP : 0);
    g.top = 2 * PICTURE_MARGIN + g.line;
    g.legend_lines = keys_lines(keys, g.text, g.width - 2 * PICTURE_MARGIN);
    g.legend = g.height - PICTURE_MARGIN - g.legend_lines * g.line;
    g.times = g.legend - PICTURE_GAP - g.line;
    return g;
}

/* The largest cell size at which there is a cell for every GRAIN bytes, within limits. */
struct geometry geometry_of_frame(const struct film_size *f)
{
    struct geometry g = of_size(f, keys_of_frame(f), f->layout == CELLS_ROWS);
    g.strip_height = (g.height < LEAST_HIGH ? HALVES_LOW_STRIP : HALVES_STRIP) * g.text / 2;
    g.strip = g.times - PICTURE_GAP - g.strip_height;
    g.strip_lines = keys_lines(keys_of_strip(), g.text, g.width - 2 * PICTURE_MARGIN);
    g.strip_keys = g.strip - PICTURE_GAP - g.strip_lines * g.line;
    int room = g.strip_keys - PICTURE_GAP - g.top;
    for (g.cell = LARGEST_CELL; g.cell >= LEAST_CELL; g.cell--) {
        g.columns = (g.width - PICTURE_MARGIN - g.left) / g.cell;
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
    g.columns = g.width - PICTURE_MARGIN - g.left;
    g.rows = g.times - PICTURE_GAP - g.top;
    return g;
}

uint64_t geometry_cell_bytes(uint64_t extent, uint64_t cells)
{
    uint64_t bytes = (extent + cells - 1) / cells, whole = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    return whole ? whole : GRAIN;
}
