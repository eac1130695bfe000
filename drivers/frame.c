/* frame.c - how a picture of the heap looks; see frame.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/frame.h"
#include "drivers/sysmem.h"

#include <inttypes.h>
#include <stdio.h>

enum { MARGIN = 8, BAR = 6, LARGEST_CELL = 16, LEAST_CELL = 4, GRAIN = 16 };

enum colours {
    BACKGROUND = 0x0b0d12,
    WORDS = 0xd8dce6,
    BAR_DONE = 0x6f8fd0,
    BAR_LEFT = 0x2a2f3a,
    UNTOUCHED = 0x1a1e28,
    UNUSED = 0x2c7a45,
    USED = 0xd0463b,
    LOCKED = 0xf0c02e,
    OVERHEAD = 0x8a8f99,
    FRESH = 0xffffff,
    GONE = 0x4fb4ff
};

static int text_height(const struct frame *f)
{
    return FONT_HEIGHT * f->scale;
}

/* The largest cells that give every 16 bytes one, within reason. */
static void lay_out(struct frame *f, uint64_t extent)
{
    int width = f->canvas.width - 2 * MARGIN;
    f->left = MARGIN;
    f->top = 2 * MARGIN + text_height(f);
    int height = f->canvas.height - f->top - text_height(f) - 3 * MARGIN - BAR;
    for (f->cell = LARGEST_CELL; f->cell >= LEAST_CELL; f->cell--) {
        f->columns = width / f->cell;
        f->rows = height / f->cell;
        if ((uint64_t)f->columns * (uint64_t)f->rows * GRAIN >= extent)
            break;
    }
    if (f->cell < LEAST_CELL)
        f->cell = LEAST_CELL;
}

bool frame_open(struct frame *f, int width, int height, uint64_t extent)
{
    *f = (struct frame){.scale = width >= 1000 ? 2 : 1};
    if (!canvas_open(&f->canvas, width, height))
        return false;
    lay_out(f, extent);
    f->shown = sysmem_get(frame_cells(f) * sizeof *f->shown);
    canvas_fill(&f->canvas, 0, 0, width, height, BACKGROUND);
    return f->shown != NULL;
}

uint64_t frame_cells(const struct frame *f)
{
    return (uint64_t)f->columns * (uint64_t)f->rows;
}

/* Part of the way from one colour to another; t in 0..1. */
static uint32_t mix(uint32_t from, uint32_t to, float t)
{
    uint32_t out = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        float a = (float)(from >> shift & 0xff), b = (float)(to >> shift & 0xff);
        out |= (uint32_t)(a + (b - a) * t + 0.5f) << shift;
    }
    return out;
}

static uint32_t colour_of(const struct cell *c)
{
    float used = c->share[LAYER_USED], locked = c->share[LAYER_LOCKED], glow;
    uint32_t colour = c->seen ? UNUSED : UNTOUCHED;
    colour = mix(colour, GONE, 0.6f * (float)c->gone / HEAT_FULL);
    if (used > 0)
        colour = mix(colour, mix(USED, LOCKED, locked < used ? locked / used : 1), 0.25f + 0.75f * used);
    colour = mix(colour, OVERHEAD, c->share[LAYER_OVERHEAD]);
    glow = used > 0 ? 0.6f * (float)c->fresh / HEAT_FULL : 0;
    return mix(colour, FRESH, glow);
}

static void paint_cells(struct frame *f, const struct heapmap *m)
{
    int gap = f->cell > 6 ? 1 : 0;
    for (uint64_t i = 0; i < m->cells; i++) {
        uint32_t colour = colour_of(&m->cell[i]) | 0xff000000u;
        if (colour == f->shown[i])
            continue;
        f->shown[i] = colour;
        canvas_fill(&f->canvas, f->left + (int)(i % (uint64_t)f->columns) * f->cell,
                    f->top + (int)(i / (uint64_t)f->columns) * f->cell, f->cell - gap, f->cell - gap,
                    colour & 0xffffff);
    }
}

/* A number of bytes in a unit that leaves it readable. */
static const char *bytes_text(char *out, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    uint64_t whole = bytes, tenth = 0;
    for (; whole >= 1024 && unit < 4; unit++) {
        tenth = whole % 1024 * 10 / 1024;
        whole /= 1024;
    }
    if (unit == 0)
        snprintf(out, size, "%" PRIu64 " B", whole);
    else
        snprintf(out, size, "%" PRIu64 ".%" PRIu64 " %s", whole, tenth, units[unit]);
    return out;
}

static void paint_head(struct frame *f, const struct heapmap *m, const struct frame_facts *facts)
{
    char line[256], live[24], extent[24], heap[24], locked[24], cell[24];
    snprintf(
        line, sizeof line, "%s  op %" PRIu64 "/%" PRIu64 "  live %s  locked %s  extent %s of %s  cell %s",
        facts->name, facts->op, facts->total, bytes_text(live, sizeof live, facts->used),
        bytes_text(locked, sizeof locked, facts->locked), bytes_text(extent, sizeof extent, facts->extent),
        bytes_text(heap, sizeof heap, facts->heap), bytes_text(cell, sizeof cell, m->cell_bytes));
    canvas_fill(&f->canvas, 0, 0, f->canvas.width, f->top - 1, BACKGROUND);
    canvas_text(&f->canvas, MARGIN, MARGIN, f->scale, WORDS, line);
}

static void paint_legend(struct frame *f)
{
    static const struct {
        const char *name;
        uint32_t colour;
    } keys[] = {{"used", USED},          {"locked", LOCKED},        {"overhead", OVERHEAD},
                {"free", UNUSED},        {"never used", UNTOUCHED}, {"just allocated", 0xec9f99},
                {"just freed", 0x419db5}};
    int y = f->canvas.height - MARGIN - BAR - MARGIN / 2 - text_height(f), x = MARGIN, side = text_height(f);
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        canvas_fill(&f->canvas, x, y, side, side, keys[i].colour);
        x = canvas_text(&f->canvas, x + side + 4, y, f->scale, WORDS, keys[i].name) + 2 * MARGIN;
    }
}

static void paint_bar(struct frame *f, const struct frame_facts *facts)
{
    int width = f->canvas.width - 2 * MARGIN, y = f->canvas.height - MARGIN - BAR + MARGIN / 2;
    int part = facts->total ? (int)((double)width * (double)facts->op / (double)facts->total) : width;
    canvas_fill(&f->canvas, MARGIN, y, width, BAR, BAR_LEFT);
    canvas_fill(&f->canvas, MARGIN, y, part < width ? part : width, BAR, BAR_DONE);
}

void frame_paint(struct frame *f, const struct heapmap *m, const struct frame_facts *facts)
{
    paint_head(f, m, facts);
    paint_cells(f, m);
    paint_legend(f);
    paint_bar(f, facts);
}
