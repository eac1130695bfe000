/* canvas.h - a frame of pixels: rectangles and small text.
 *
 * Pixels are 32 bits, 0x00RRGGBB, rows from the top. What lies outside the canvas is cut off. Text has a fixed font
 * (font.c), scaled by whole numbers: capitals are 5 x 7 pixels, with two rows below for descenders.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_CANVAS_H
#define DRIVERS_FILM_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

struct canvas {
    uint32_t *pixels;
    int width, height;
};

enum { FONT_WIDTH = 5, FONT_HEIGHT = 7, FONT_ROWS = 9, FONT_ADVANCE = 6 };

bool canvas_open(struct canvas *c, int width, int height);
void canvas_fill(struct canvas *c, int x, int y, int width, int height, uint32_t colour);
/* Draw text and return the x after the last letter. Letters that the font does not have are drawn as a box. */
int canvas_text(struct canvas *c, int x, int y, int scale, uint32_t colour, const char *text);

/* FONT_ROWS rows of a letter from the top, bit 4 = leftmost pixel. */
const unsigned char *font_rows(char letter);

#endif
