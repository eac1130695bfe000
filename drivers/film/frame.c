/* frame.c - lays out and draws a picture of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/frame.h"
#include "drivers/film/colours.h"
#include "drivers/film/legend.h"
#include "drivers/heap/raw_syscalls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MARGIN = 8,
    STRIP = 40,
    LARGEST_CELL = 16,
    LEAST_CELL = 4,
    GRAIN = 16,
    LEAST_OUTLINED = 5,
    LINE_TEXT = 256
};
#define OUTLINED 0x1000000u /* flag in a colour: the cell has an outline */
#define PAINTED 0x2000000u

static int text_height(const struct frame *f)
{
    return FONT_HEIGHT * f->scale;
}

/* The largest cell size at which there is a cell for every 16 bytes, within limits. */
static void lay_out(struct frame *f, uint64_t extent)
{
    int width = f->canvas.width - 2 * MARGIN;
    f->left = MARGIN;
    f->top = 2 * MARGIN + text_height(f);
    int foot = 2 * text_height(f) + STRIP * f->scale + 4 * MARGIN;
    int height = f->canvas.height - f->top - foot;
    for (f->cell = LARGEST_CELL; f->cell >= LEAST_CELL; f->cell--) {
        f->columns = width / f->cell;
        f->rows = height / f->cell;
        if ((uint64_t)f->columns * (uint64_t)f->rows * GRAIN >= extent)
            break;
    }
    if (f->cell < LEAST_CELL)
        f->cell = LEAST_CELL;
}

/* Lay out the strip below the grid and the legend below that. */
static void place_strip(struct frame *f, uint64_t most)
{
    int height = (STRIP + FONT_HEIGHT) * f->scale;
    f->strip = (struct strip){.left = MARGIN,
                              .top = f->canvas.height - height - text_height(f) - 2 * MARGIN,
                              .width = f->canvas.width - 2 * MARGIN,
                              .height = height,
                              .most = most};
    strip_begin(&f->strip, &f->canvas, f->scale);
}

/* Draw what is the same in all frames. */
static void paint_legend(struct frame *f)
{
    static const struct key keys[] = {{"used", USED_COLOUR, 0},
                                      {"locked", USED_COLOUR, LOCKED_COLOUR},
                                      {"overhead", OVERHEAD_COLOUR, 0},
                                      {"free", UNUSED_COLOUR, 0},
                                      {"never used", UNTOUCHED_COLOUR, 0},
                                      {"new", 0xf3c19d, 0},
                                      {"freed", 0x56ace0, 0},
                                      {"read", READ_COLOUR, 0},
                                      {"written", WRITTEN_COLOUR, 0}};
    legend_paint(&f->canvas, MARGIN, f->canvas.height - MARGIN - text_height(f), f->scale, keys,
                 sizeof keys / sizeof keys[0]);
}

bool frame_open(struct frame *f, int width, int height, uint64_t extent, uint64_t most, enum layout layout)
{
    *f = (struct frame){.scale = width >= 1000 ? 2 : 1};
    if (!canvas_open(&f->canvas, width, height))
        return false;
    lay_out(f, extent);
    f->spots = layout_make(layout, f->columns, f->rows);
    f->shown = raw_map(frame_cells(f) * sizeof *f->shown);
    canvas_fill(&f->canvas, 0, 0, width, height, BACKGROUND_COLOUR);
    place_strip(f, most);
    paint_legend(f);
    return f->shown && f->spots;
}

uint64_t frame_cells(const struct frame *f)
{
    return (uint64_t)f->columns * (uint64_t)f->rows;
}

/* Mix two colours; t in 0..1. */
static uint32_t mix(uint32_t from, uint32_t to, float t)
{
    uint32_t out = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        float a = (float)(from >> shift & 0xff), b = (float)(to >> shift & 0xff);
        out |= (uint32_t)(a + (b - a) * t + 0.5f) << shift;
    }
    return out;
}

static float heat(const struct cell *c, enum heap_layer layer)
{
    return (float)c->glow[layer - LAYER_FRESH] / HEAT_FULL;
}

uint32_t frame_colour(const struct cell *c)
{
    float used = c->share[LAYER_USED];
    uint32_t colour = c->seen ? UNUSED_COLOUR : UNTOUCHED_COLOUR;
    if (used > 0)
        colour = mix(colour, USED_COLOUR, 0.25f + 0.75f * used);
    return mix(colour, OVERHEAD_COLOUR, c->share[LAYER_OVERHEAD]);
}

/* The colour of a cell with its glow, from its current or its previous contents. */
static uint32_t colour_of(const struct cell *c)
{
    uint32_t colour = frame_colour(c);
    if (!(c->glow[0] | c->glow[1] | c->glow[2] | c->glow[3]))
        return colour;
    if (c->share[LAYER_USED] <= 0)
        return mix(colour, GONE_COLOUR, 0.6f * heat(c, LAYER_GONE));
    colour = mix(colour, FRESH_COLOUR, 0.6f * heat(c, LAYER_FRESH));
    colour = mix(colour, READ_COLOUR, 0.8f * heat(c, LAYER_READ));
    return mix(colour, WRITTEN_COLOUR, 0.8f * heat(c, LAYER_WRITTEN));
}

/* The painted colour of a cell. Cells with locked bytes have an outline or, if they are too small for one, its
 * colour. */
static uint32_t look_of(const struct frame *f, const struct cell *c)
{
    uint32_t colour = colour_of(c) | PAINTED;
    float locked = c->share[LAYER_LOCKED];
    if (locked <= 0)
        return colour;
    return f->cell >= LEAST_OUTLINED ? colour | OUTLINED
                                     : mix(colour & 0xffffff, LOCKED_COLOUR, 0.3f + 0.7f * locked) | PAINTED;
}

static void paint_cell(struct frame *f, struct spot at, uint32_t look)
{
    int side = f->cell - (f->cell > 6 ? 1 : 0), x = f->left + at.column * f->cell,
        y = f->top + at.row * f->cell;
    if (!(look & OUTLINED)) {
        canvas_fill(&f->canvas, x, y, side, side, look & 0xffffff);
        return;
    }
    canvas_fill(&f->canvas, x, y, side, side, LOCKED_COLOUR);
    canvas_fill(&f->canvas, x + 1, y + 1, side - 2, side - 2, look & 0xffffff);
}

static void paint_cells(struct frame *f, const struct heapmap *m)
{
    for (uint64_t i = 0; i < m->cells; i++) {
        uint32_t look = look_of(f, &m->cell[i]);
        if (look == f->shown[i])
            continue;
        f->shown[i] = look;
        paint_cell(f, f->spots[i], look);
    }
}

/* Append texts to the line as long as the picture is wide enough. The most important ones come first. */
static __attribute__((format(printf, 3, 4))) void add_words(const struct frame *f, char line[LINE_TEXT],
                                                            const char *format, ...)
{
    char words[LINE_TEXT];
    va_list ap;
    va_start(ap, format);
    vsnprintf(words, sizeof words, format, ap);
    va_end(ap);
    size_t used = strlen(line),
           room = (size_t)(f->canvas.width - 2 * MARGIN) / (size_t)(FONT_ADVANCE * f->scale);
    if (used + strlen(words) <= room && used + strlen(words) < LINE_TEXT)
        memcpy(line + used, words, strlen(words) + 1);
}

static void paint_head(struct frame *f, const struct heapmap *m, const struct frame_facts *facts)
{
    char line[LINE_TEXT] = "", a[NUMBER_TEXT], b[NUMBER_TEXT];
    double more = strip_fragmentation(facts->used, facts->resident);
    add_words(f, line, "%s", facts->name);
    add_words(f, line, "  op %s/%s", legend_count(a, facts->op), legend_count(b, facts->total));
    add_words(f, line, "%s%s", *facts->when ? "  " : "", facts->when);
    add_words(f, line, "  live %s", legend_bytes(a, facts->used));
    add_words(f, line, "  resident %s", legend_bytes(a, facts->resident));
    /* at the end of a program almost nothing is live, and a percentage would be meaningless */
    if (more < 9.995)
        add_words(f, line, " (+%.0f%%)", 100 * more);
    if (facts->locked)
        add_words(f, line, "  locked %s", legend_bytes(a, facts->locked));
    add_words(f, line, "  top %s/%s", legend_bytes(a, facts->extent), legend_bytes(b, facts->heap));
    add_words(f, line, "  cell %s", legend_bytes(a, m->cell_bytes));
    if (facts->gaps)
        add_words(f, line, "  gaps left out: %u", facts->gaps);
    canvas_fill(&f->canvas, 0, 0, f->canvas.width, f->top - 1, BACKGROUND_COLOUR);
    canvas_text(&f->canvas, MARGIN, MARGIN, f->scale, TEXT_COLOUR, line);
}

void frame_pass(struct frame *f, const struct frame_facts *facts)
{
    strip_add(&f->strip, &f->canvas, facts->done, facts->used, facts->resident);
}

void frame_paint(struct frame *f, const struct heapmap *m, const struct frame_facts *facts)
{
    paint_head(f, m, facts);
    paint_cells(f, m);
    frame_pass(f, facts);
}
