/* poster.c - draws the poster: one picture of the whole replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/poster.h"
#include "drivers/film/colours.h"
#include "drivers/film/frame.h"
#include "drivers/film/legend.h"

#include <stdio.h>

enum { MARGIN = 8 };

int poster_columns(int width)
{
    return width - 2 * MARGIN;
}

bool poster_open(struct poster *p, int width, int height)
{
    int scale = width >= 1000 ? 2 : 1, line = FONT_HEIGHT * scale + 2 * MARGIN;
    *p = (struct poster){.scale = scale,
                         .left = MARGIN,
                         .top = line,
                         .columns = poster_columns(width),
                         .rows = height - 2 * line};
    if (!canvas_open(&p->canvas, width, height))
        return false;
    canvas_fill(&p->canvas, 0, 0, width, height, BACKGROUND_COLOUR);
    return true;
}

static uint32_t colour_at(const struct cell *c)
{
    uint32_t colour = frame_colour(c);
    return c->share[LAYER_LOCKED] > 0.5f ? LOCKED_COLOUR : colour;
}

void poster_add(struct poster *p, const struct heapmap *m, double done)
{
    int to = (int)(done * p->columns), width = to - p->drawn;
    if (width <= 0)
        return;
    for (uint64_t i = 0; i < m->cells && i < (uint64_t)p->rows; i++)
        canvas_fill(&p->canvas, p->left + p->drawn, p->top + p->rows - 1 - (int)i, width, 1,
                    colour_at(&m->cell[i]));
    p->drawn = to;
}

void poster_words(struct poster *p, const char *name, uint64_t extent, const char *time)
{
    static const struct key keys[] = {{"used", USED_COLOUR, 0},
                                      {"locked", LOCKED_COLOUR, 0},
                                      {"overhead", OVERHEAD_COLOUR, 0},
                                      {"free", UNUSED_COLOUR, 0},
                                      {"never used", UNTOUCHED_COLOUR, 0}};
    char line[200], bytes[NUMBER_TEXT];
    int letters = p->columns / (FONT_ADVANCE * p->scale);
    legend_bytes(bytes, extent);
    if (snprintf(line, sizeof line, "%s   up: address, %s   right: time, %s", name, bytes, time) > letters &&
        snprintf(line, sizeof line, "%s  %s  %s", name, bytes, time) > letters)
        snprintf(line, sizeof line, "%s", name);
    canvas_text(&p->canvas, p->left, MARGIN, p->scale, TEXT_COLOUR, line);
    legend_paint(&p->canvas, p->left, p->top + p->rows + MARGIN, p->scale, keys,
                 sizeof keys / sizeof keys[0]);
}
