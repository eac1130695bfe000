/* frame.c - paints a picture of the heap at one moment.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/frame.h"
#include "drivers/base/cell_layout.h"
#include "drivers/film/colours.h"
#include "drivers/painter/axis.h"
#include "drivers/painter/legend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_TEXT = 256 };

/* Draw what is the same in all frames. */
static void paint_still_parts(struct frame *f)
{
    const struct film_size *film = &f->head->film;
    canvas_fill(&f->canvas, 0, 0, f->at.width, f->at.height, BACKGROUND_COLOUR);
    strip_begin(&f->strip, &f->canvas, &f->at, film->most);
    axis_times(&f->canvas, &f->at, film);
    axis_addresses(&f->canvas, &f->at, film, false);
    legend_paint(&f->canvas, PICTURE_MARGIN, f->at.legend, f->at.text, f->at.legend_lines,
                 keys_of_frame(film));
}

bool frame_open(struct frame *f, const struct scene_head *head)
{
    const struct film_size *film = &head->film;
    *f = (struct frame){.at = geometry_of_frame(film), .head = head};
    if (!canvas_open(&f->canvas, f->at.width, f->at.height, f->at.text))
        return false;
    f->spots = cell_layout_make(film->layout, f->at.columns, f->at.rows);
    f->shown = calloc(frame_cells(f), sizeof *f->shown);
    paint_still_parts(f);
    return f->shown && f->spots;
}

uint64_t frame_cells(const struct frame *f)
{
    return (uint64_t)f->at.columns * (uint64_t)f->at.rows;
}

static void fill_pixels(uint32_t *at, int width, int side, uint32_t colour)
{
    for (int row = 0; row < side; row++, at += width)
        for (int column = 0; column < side; column++)
            at[column] = colour;
}

static void paint_cell(const struct frame *f, uint32_t *pixels, struct cell_spot spot, uint32_t look)
{
    int side = f->at.cell - (f->at.cell > 6 ? 1 : 0), width = f->at.width;
    uint32_t *at =
        pixels + (f->at.top + spot.row * f->at.cell) * width + f->at.left + spot.column * f->at.cell;
    if (!(look & LOOK_OUTLINED)) {
        fill_pixels(at, width, side, look & LOOK_COLOUR);
        return;
    }
    fill_pixels(at, width, side, LOCKED_COLOUR);
    fill_pixels(at + width + 1, width, side - 2, look & LOOK_COLOUR);
}

static void paint_cells(struct frame *f, const uint32_t *looks, uint64_t cells)
{
    uint32_t *pixels = canvas_write(&f->canvas);
    for (uint64_t i = 0; i < cells; i++) {
        if (looks[i] == f->shown[i])
            continue;
        f->shown[i] = looks[i];
        paint_cell(f, pixels, f->spots[i], looks[i]);
    }
    canvas_written(&f->canvas);
}

/* Append words to the line as long as the picture is wide enough. The most important ones come first. */
static __attribute__((format(printf, 3, 4))) void add_words(struct frame *f, char line[LINE_TEXT],
                                                            const char *format, ...)
{
    va_list ap;
    size_t used = strlen(line);
    va_start(ap, format);
    vsnprintf(line + used, LINE_TEXT - used, format, ap);
    va_end(ap);
    if (canvas_text_width(&f->canvas, line) > f->at.width - 2 * PICTURE_MARGIN)
        line[used] = 0;
}

static void paint_head(struct frame *f, const struct scene *s)
{
    char line[LINE_TEXT] = "", a[NUMBER_TEXT], b[NUMBER_TEXT], when[TIME_TEXT];
    double more = strip_fragmentation(s->used, s->resident);
    enum film_time unit = f->head->film.time;
    add_words(f, line, "%s", f->head->name);
    add_words(f, line, "   op %s/%s", legend_count(a, s->op), legend_count(b, f->head->total_ops));
    if (unit != FILM_OPS)
        add_words(f, line, "   %s", legend_time(when, unit, s->now));
    add_words(f, line, "   live %s", legend_bytes(a, s->used));
    add_words(f, line, "   resident %s", legend_bytes(a, s->resident));
    /* at the end of a program almost nothing is live, and a percentage would be meaningless */
    if (more < 9.995)
        add_words(f, line, " (+%.0f%%)", 100 * more);
    if (s->locked)
        add_words(f, line, "   locked %s", legend_bytes(a, s->locked));
    add_words(f, line, "   top %s/%s", legend_bytes(a, s->extent), legend_bytes(b, f->head->heap));
    add_words(f, line, "   cell %s", legend_bytes(a, s->cell_bytes));
    if (s->gaps)
        add_words(f, line, "   gaps left out: %u", s->gaps);
    canvas_fill(&f->canvas, 0, 0, f->at.width, f->at.top - PICTURE_MARGIN, BACKGROUND_COLOUR);
    canvas_text_end(&f->canvas, PICTURE_MARGIN, PICTURE_MARGIN, f->at.width - 2 * PICTURE_MARGIN, TEXT_COLOUR,
                    *line ? line : f->head->name);
}

void frame_pass(struct frame *f, const struct scene *s)
{
    strip_add(&f->strip, &f->canvas, s->done, s->used, s->resident);
}

void frame_paint(struct frame *f, const struct scene *s, const uint32_t *looks)
{
    paint_head(f, s);
    paint_cells(f, looks, s->cells);
    frame_pass(f, s);
}
