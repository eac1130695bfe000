/* canvas.h - a frame of pixels: rectangles and small text.
 *
 * Pixels are 32 bits, 0x00RRGGBB, rows from the top. Drawing outside the canvas is cut off. Text is drawn in
 * a fixed font (font.c), enlarged by whole numbers: capitals 5 x 7, below them two rows for g and its like.
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
/* Returns the x after the last letter. Letters without a picture are drawn as a box. */
int canvas_text(struct canvas *c, int x, int y, int scale, uint32_t colour, const char *text);

/* FONT_ROWS rows of a letter from the top, bit 4 = leftmost pixel. */
const unsigned char *font_rows(char letter);

#endif
