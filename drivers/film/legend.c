/* legend.c - writes the legend and numbers on pictures of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/legend.h"
#include "drivers/film/colours.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void paint_square(struct canvas *c, int x, int y, int scale, const struct key *k)
{
    int side = FONT_HEIGHT * scale;
    canvas_fill(c, x, y, side, side, k->outline ? k->outline : k->colour);
    canvas_fill(c, x + scale, y + scale, side - 2 * scale, side - 2 * scale, k->colour);
}

void legend_paint(struct canvas *c, int x, int y, int scale, const struct key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int words = (int)strlen(keys[i].name) * FONT_ADVANCE;
        if (x + (FONT_HEIGHT + 2 + words) * scale > c->width)
            return;
        paint_square(c, x, y, scale, &keys[i]);
        x += (FONT_HEIGHT + 2) * scale;
        x = canvas_text(c, x, y, scale, TEXT_COLOUR, keys[i].name) + FONT_ADVANCE * scale * 3 / 2;
    }
}

const char *legend_bytes(char out[NUMBER_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    uint64_t whole = bytes, tenth = 0;
    for (; whole >= 1024 && unit < 4; unit++) {
        tenth = whole % 1024 * 10 / 1024;
        whole /= 1024;
    }
    if (unit == 0)
        snprintf(out, NUMBER_TEXT, "%" PRIu64 " B", whole);
    else
        snprintf(out, NUMBER_TEXT, "%" PRIu64 ".%" PRIu64 " %s", whole, tenth, units[unit]);
    return out;
}

const char *legend_count(char out[NUMBER_TEXT], uint64_t n)
{
    char *at = out + NUMBER_TEXT - 1;
    *at = 0;
    for (int digits = 0; digits == 0 || n; n /= 10, digits++) {
        if (digits && digits % 3 == 0)
            *--at = ',';
        *--at = (char)('0' + n % 10);
    }
    return at;
}
