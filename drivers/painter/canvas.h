/* canvas.h - a picture in memory: rectangles and text, drawn by cairo.
 *
 * Pixels are 32 bits, 0xRRGGBB in the lower 24, rows from the top. Cells of heaps are written as pixels, because cairo takes a
 * microsecond for a rectangle, and a frame may have 60,000.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_CANVAS_H
#define DRIVERS_PAINTER_CANVAS_H

#include <cairo.h>
#include <stdbool.h>
#include <stdint.h>

struct canvas {
    uint32_t *pixels; /* width x height, to be read */
    int width, height;
    cairo_surface_t *surface;
    cairo_t *cairo;
    int ascent; /* of letters, in pixels */
};

/* A canvas with letters of `text` pixels. False: out of memory. */
bool canvas_open(struct canvas *c, int width, int height, int text);
void canvas_close(struct canvas *c);

/* What lies outside the canvas is cut off. */
void canvas_fill(struct canvas *c, int x, int y, int width, int height, uint32_t colour);
/* A square whose `edge` pixels at the border have another colour. */
void canvas_square(struct canvas *c, int x, int y, int side, int edge, uint32_t border, uint32_t colour);

/* Draw text below the line y and return the x after it. */
int canvas_text(struct canvas *c, int x, int y, uint32_t colour, const char *text);
int canvas_text_width(struct canvas *c, const char *text);
/* As canvas_text, in so many pixels: of a longer text the end is shown, after an ellipsis. */
int canvas_text_end(struct canvas *c, int x, int y, int room, uint32_t colour, const char *text);

/* The pixels to be written, until canvas_written. */
uint32_t *canvas_write(struct canvas *c);
void canvas_written(struct canvas *c);

#endif
