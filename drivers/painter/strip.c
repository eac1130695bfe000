/* strip.c - draws the strip below a picture of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/strip.h"
#include "drivers/film/colours.h"
#include "drivers/painter/legend.h"

enum { LINE = 2 };

double strip_fragmentation(uint64_t used, uint64_t resident)
{
    return used && resident > used ? (double)resident / (double)used - 1 : 0;
}

static int height_of(const struct strip *s, double share)
{
    return (int)((share < 0 ? 0 : share > 1 ? 1 : share) * (s->height - LINE));
}

/* Continue a line at another height; *from is the previous one. */
static void go_on(const struct strip *s, struct canvas *c, int x, int width, int *from, int height,
                  uint32_t colour)
{
    int low = *from < 0 || *from > height ? height : *from, high = *from > height ? *from : height;
    canvas_fill(c, x, s->top + s->height - high - LINE, LINE < width ? LINE : width, high - low + LINE,
                colour);
    canvas_fill(c, x, s->top + s->height - height - LINE, width, LINE, colour);
    *from = height;
}

void strip_add(struct strip *s, struct canvas *c, double done, uint64_t used, uint64_t resident)
{
    int to = (int)(done * s->width), x = s->left + s->drawn, width = to - s->drawn;
    double most = s->most ? (double)s->most : 1;
    if (width <= 0)
        return;
    int live = height_of(s, (double)used / most);
    canvas_fill(c, x, s->top, width, s->height, STRIP_COLOUR);
    canvas_fill(c, x, s->top + s->height - live, width, live, USED_COLOUR);
    go_on(s, c, x, width, &s->resident, height_of(s, (double)resident / most), RESIDENT_COLOUR);
    go_on(s, c, x, width, &s->fragmented, height_of(s, strip_fragmentation(used, resident)),
          FRAGMENTED_COLOUR);
    s->drawn = to;
}

/* The bytes at full height, left of it. */
static void write_scale(struct canvas *c, const struct geometry *g, uint64_t most)
{
    char text[NUMBER_TEXT];
    int room = g->labels - PICTURE_GAP, width = canvas_text_width(c, legend_tick_bytes(text, most));
    if (g->labels)
        canvas_text_end(c, PICTURE_MARGIN + (width < room ? room - width : 0), g->strip, room, TEXT_COLOUR,
                        text);
}

void strip_begin(struct strip *s, struct canvas *c, const struct geometry *g, uint64_t most)
{
    *s = (struct strip){.left = g->left,
                        .top = g->strip,
                        .width = g->columns * g->cell,
                        .height = g->strip_height,
                        .most = most,
                        .resident = -1,
                        .fragmented = -1};
    legend_paint(c, PICTURE_MARGIN, g->strip_keys, g->text, g->strip_lines, keys_of_strip());
    write_scale(c, g, most);
    canvas_fill(c, s->left, s->top, s->width, s->height, STRIP_COLOUR);
}
