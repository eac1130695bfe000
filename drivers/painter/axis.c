/* axis.c - draws the ticks of pictures of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/axis.h"
#include "drivers/film/colours.h"
#include "drivers/painter/legend.h"

enum { MARK = 3 }; /* length of the line at a tick, in pixels */

uint64_t axis_step(uint64_t length, int most, bool of_bytes)
{
    uint64_t step = 1, least = length / (uint64_t)(most > 1 ? most : 1);
    while (of_bytes && step < least)
        step *= 2;
    for (int i = 0; !of_bytes && step < least; i++) /* 1 2 5 10 ... */
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

static int fewer(int a, int b)
{
    return a < b ? a : b;
}

/* Draw a tick at x, and its label if that is not before `from`. Returns where the next may begin. */
static int tick_time(struct canvas *c, const struct geometry *at, int x, int from, const char *label)
{
    int width = canvas_text_width(c, label), to = at->left + at->columns * at->cell - width;
    int begin = x - width / 2 < at->left ? at->left : fewer(x - width / 2, to);
    canvas_fill(c, x, at->times - PICTURE_GAP, 1, MARK, TEXT_COLOUR);
    if (begin < from)
        return from;
    return canvas_text(c, begin, at->times, TEXT_COLOUR, label) + at->text;
}

/* The tick at 0 also says what the unit is. */
void axis_times(struct canvas *c, const struct geometry *at, const struct film_size *f)
{
    char label[TIME_TEXT];
    int width = at->columns * at->cell, most = fewer(width / (6 * at->text), MOST_TICKS);
    uint64_t step = axis_step(f->total, most, f->time == FILM_BYTES);
    int from = tick_time(c, at, at->left, at->left, legend_time(label, f->time, 0));
    for (uint64_t time = step; time <= f->total && time; time += step) {
        int x = at->left + (int)((double)time / (double)f->total * (width - 1));
        const char *text =
            f->time == FILM_BYTES ? legend_tick_bytes(label, time) : legend_tick_count(label, time);
        from = tick_time(c, at, x, from, text);
    }
}

struct ladder {
    struct canvas *c;
    const struct geometry *at;
    uint64_t row_bytes; /* of a row of cells */
    bool upwards;
    int labelled; /* y of the last label */
};

/* Label the row of an offset from the start of what is drawn, unless the last label is too near. */
static void tick_address(struct ladder *l, uint64_t place, uint64_t offset)
{
    char label[NUMBER_TEXT];
    const struct geometry *at = l->at;
    uint64_t row = place / l->row_bytes;
    if (row >= (uint64_t)at->rows)
        return;
    int across = (int)row * at->cell, height = at->rows * at->cell;
    int y = at->top + (l->upwards ? height - 1 - across : across);
    int apart = y > l->labelled ? y - l->labelled : l->labelled - y;
    if (apart < at->line)
        return;
    l->labelled = y;
    legend_tick_bytes(label, offset);
    int room = at->labels - MARK - 1, width = fewer(canvas_text_width(l->c, label), room);
    canvas_fill(l->c, at->left - MARK - 1, y, MARK, 1, TEXT_COLOUR);
    int top = y - at->text / 2,
        least = at->top - PICTURE_MARGIN; /* the line of text above is written again */
    canvas_text_end(l->c, PICTURE_MARGIN + room - width, top < least ? least : top, room, TEXT_COLOUR, label);
}

void axis_addresses(struct canvas *c, const struct geometry *at, const struct film_size *f, bool upwards)
{
    uint64_t rows = (uint64_t)at->rows, cells = upwards ? rows : rows * (uint64_t)at->columns;
    struct ladder l = {.c = c, .at = at, .upwards = upwards, .labelled = -at->height};
    struct islands whole = {.count = 1, .of = {{0, f->extent}}};
    const struct islands *s = f->islands.count ? &f->islands : &whole;
    uint64_t step = axis_step(f->extent, fewer(at->rows * at->cell / (2 * at->line), MOST_TICKS), true);
    l.row_bytes = geometry_cell_bytes(f->extent, cells) * (cells / rows);
    for (uint32_t i = 0; at->labels && i < s->count; i++) {
        tick_address(&l, islands_place(s, s->of[i].from), s->of[i].from);
        for (uint64_t to = (s->of[i].from / step + 1) * step; to < s->of[i].to; to += step)
            tick_address(&l, islands_place(s, to), to);
    }
}
