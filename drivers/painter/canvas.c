/* canvas.c - draws rectangles and text by cairo.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/painter/canvas.h"

#include <stdio.h>

/* Debian's cairo depends on fontconfig, and that on a package with this font; otherwise fontconfig chooses one. */
static const char FONT[] = "DejaVu Sans";

/* Grey edges of letters: those with colours are for screens of one kind, and blur in films. */
static void choose_font(struct canvas *c, int text)
{
    cairo_font_extents_t extents;
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_SLIGHT);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_ON);
    cairo_set_font_options(c->cairo, options);
    cairo_font_options_destroy(options);
    cairo_select_font_face(c->cairo, FONT, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c->cairo, text);
    cairo_font_extents(c->cairo, &extents);
    c->ascent = (int)(extents.ascent + 0.5);
}

bool canvas_open(struct canvas *c, int width, int height, int text)
{
    *c = (struct canvas){.width = width, .height = height};
    c->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    c->cairo = cairo_create(c->surface);
    choose_font(c, text);
    c->pixels = (uint32_t *)(void *)cairo_image_surface_get_data(c->surface);
    return c->pixels && cairo_status(c->cairo) == CAIRO_STATUS_SUCCESS;
}

void canvas_close(struct canvas *c)
{
    cairo_destroy(c->cairo);
    cairo_surface_destroy(c->surface);
}

static void set_colour(struct canvas *c, uint32_t colour)
{
    cairo_set_source_rgb(c->cairo, (colour >> 16 & 0xff) / 255.0, (colour >> 8 & 0xff) / 255.0,
                         (colour & 0xff) / 255.0);
}

void canvas_fill(struct canvas *c, int x, int y, int width, int height, uint32_t colour)
{
    set_colour(c, colour);
    cairo_rectangle(c->cairo, x, y, width, height);
    cairo_fill(c->cairo);
}

void canvas_square(struct canvas *c, int x, int y, int side, int edge, uint32_t border, uint32_t colour)
{
    canvas_fill(c, x, y, side, side, border);
    canvas_fill(c, x + edge, y + edge, side - 2 * edge, side - 2 * edge, colour);
}

int canvas_text_width(struct canvas *c, const char *text)
{
    cairo_text_extents_t extents;
    cairo_text_extents(c->cairo, text, &extents);
    return (int)(extents.x_advance + 0.999);
}

int canvas_text(struct canvas *c, int x, int y, uint32_t colour, const char *text)
{
    set_colour(c, colour);
    cairo_move_to(c->cairo, x, y + c->ascent);
    cairo_show_text(c->cairo, text);
    return x + canvas_text_width(c, text);
}

/* The byte after the first letter, in UTF-8. */
static const char *next_letter(const char *text)
{
    text++;
    while ((*text & 0xc0) == 0x80)
        text++;
    return text;
}

int canvas_text_end(struct canvas *c, int x, int y, int room, uint32_t colour, const char *text)
{
    static const char dots[] = "\xe2\x80\xa6";
    char line[256];
    if (canvas_text_width(c, text) <= room)
        return canvas_text(c, x, y, colour, text);
    do {
        text = next_letter(text);
        snprintf(line, sizeof line, "%s%s", dots, text);
    } while (*text && canvas_text_width(c, line) > room);
    return canvas_text(c, x, y, colour, line);
}

uint32_t *canvas_write(struct canvas *c)
{
    cairo_surface_flush(c->surface);
    return c->pixels;
}

void canvas_written(struct canvas *c)
{
    cairo_surface_mark_dirty(c->surface);
}
