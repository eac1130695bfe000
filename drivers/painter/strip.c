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

void strip_begin(struct strip *s, struct canvas *c, const struct geometry *g, uint64_t most)
{
    static const struct key keys[] = {{"live", USED_COLOUR, 0},
                                      {"resident", RESIDENT_COLOUR, 0},
                                      {"resident over live, 0 to 100 %", FRAGMENTED_COLOUR, 0}};
    *s = (struct strip){.left = PICTURE_MARGIN,
                        .top = g->strip,
                        .width = g->width - 2 * PICTURE_MARGIN,
                        .height = g->strip_height,
                        .most = most,
                        .resident = -1,
                        .fragmented = -1};
    legend_paint(c, s->left, g->strip - PICTURE_MARGIN / 2 - g->line, g->text, keys,
                 sizeof keys / sizeof keys[0]);
    canvas_fill(c, s->left, s->top, s->width, s->height, STRIP_COLOUR);
}
