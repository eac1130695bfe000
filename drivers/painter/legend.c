/* legend.c - writes the legend and numbers on pictures of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/legend.h"
#include "drivers/film/colours.h"
#include "drivers/film/geometry.h"

#include <inttypes.h>
#include <stdio.h>

/* The end of the last line: how many keys are missing. */
static size_t write_more(struct canvas *c, int x, int y, size_t more)
{
    char text[NUMBER_TEXT];
    snprintf(text, sizeof text, "+%zu more", more);
    canvas_text(c, x, y, TEXT_COLOUR, text);
    return more;
}

/* Width of the keys from number i on, in one line. */
static int width_from(struct canvas *c, int text, struct keys keys, size_t i)
{
    int width = -2 * key_space(text);
    for (; i < keys.count; i++)
        width += key_side(text) + 3 * key_space(text) + canvas_text_width(c, keys.of[i].name);
    return width;
}

static void paint_square(struct canvas *c, int x, int y, int text, const struct key *k)
{
    /* as high as capitals, which stand on the same line */
    int side = key_side(text), edge = text < 16 ? 1 : text / 8;
    canvas_square(c, x, y + c->ascent - side, side, edge, k->outline ? k->outline : k->colour, k->colour);
}

size_t legend_paint(struct canvas *c, int x, int y, int text, int lines, struct keys keys)
{
    int before = key_side(text) + key_space(text), space = 2 * key_space(text), left = x;
    int more = canvas_text_width(c, "+99 more"), right = c->width - PICTURE_MARGIN;
    for (size_t i = 0; i < keys.count; i++) {
        const struct key *k = &keys.of[i];
        int width = before + canvas_text_width(c, k->name);
        if (x > left && x + width > right && lines > 1) {
            lines--;
            y += line_height(text);
            x = left;
        }
        bool last = lines == 1 && x + width_from(c, text, keys, i) > right;
        if (last && x > left && x + width + space + more > right)
            return write_more(c, x, y, keys.count - i);
        int room = right - x - before - (last && i + 1 < keys.count ? space + more : 0);
        paint_square(c, x, y, text, k);
        x = canvas_text_end(c, x + before, y, room, TEXT_COLOUR, k->name) + space;
    }
    return 0;
}

/* A number in the largest unit of which it has one: with one digit of a fraction, or as a tick with quarters. */
static void write_units(char out[NUMBER_TEXT], uint64_t n, uint64_t base, const char *const units[5],
                        bool tick)
{
    unsigned unit = 0;
    uint64_t whole = n, rest = 0;
    for (; whole >= base && unit < 4; unit++) {
        rest = whole % base;
        whole /= base;
    }
    uint64_t tenths = rest * 10 / base, hundredths = rest * 100 / base;
    const char *space = *units[unit] ? " " : "";
    if (unit == 0 || (tick && (tenths == 0 || whole >= 100)))
        snprintf(out, NUMBER_TEXT, "%" PRIu64 "%s%s", whole, space, units[unit]);
    else if (tick && hundredths % 50 == 25)
        snprintf(out, NUMBER_TEXT, "%" PRIu64 ".%02" PRIu64 "%s%s", whole, hundredths, space, units[unit]);
    else
        snprintf(out, NUMBER_TEXT, "%" PRIu64 ".%" PRIu64 "%s%s", whole, tenths, space, units[unit]);
}

static const char *const s_bytes[] = {"B", "KiB", "MiB", "GiB", "TiB"};

const char *legend_bytes(char out[NUMBER_TEXT], uint64_t bytes)
{
    write_units(out, bytes, 1024, s_bytes, false);
    return out;
}

const char *legend_tick_bytes(char out[NUMBER_TEXT], uint64_t bytes)
{
    write_units(out, bytes, 1024, s_bytes, true);
    return out;
}

const char *legend_tick_count(char out[NUMBER_TEXT], uint64_t n)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    write_units(out, n, 1000, units, true);
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
