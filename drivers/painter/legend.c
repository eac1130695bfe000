/* legend.c - writes the legend and numbers on pictures of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/legend.h"
#include "drivers/film/colours.h"

#include <inttypes.h>
#include <stdio.h>

void legend_paint(struct canvas *c, int x, int y, int text, const struct key *keys, size_t count)
{
    int side = text * 3 / 4, edge = text < 16 ? 1 : text / 8, space = text / 2;
    for (size_t i = 0; i < count; i++) {
        const struct key *k = &keys[i];
        if (x + side + space + canvas_text_width(c, k->name) > c->width)
            return;
        /* as high as capitals, which stand on the same line */
        canvas_square(c, x, y + c->ascent - side, side, edge, k->outline ? k->outline : k->colour, k->colour);
        x = canvas_text(c, x + side + space, y, TEXT_COLOUR, k->name) + 2 * space;
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

const char *legend_time(char out[TIME_TEXT], enum film_time unit, uint64_t amount)
{
    char number[NUMBER_TEXT];
    if (unit == FILM_BYTES)
        snprintf(out, TIME_TEXT, "%s allocated", legend_bytes(number, amount));
    else
        snprintf(out, TIME_TEXT, "%s %s", legend_count(number, amount),
                 unit == FILM_OPS ? "operations" : film_time_names[unit]);
    return out;
}
