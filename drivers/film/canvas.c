/* canvas.c - draws rectangles and text into a frame of pixels.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/canvas.h"
#include "drivers/heap/raw_syscalls.h"

#include <stddef.h>
#include <string.h>

bool canvas_open(struct canvas *c, int width, int height)
{
    *c = (struct canvas){raw_map((size_t)width * (size_t)height * sizeof *c->pixels), width, height};
    return c->pixels != NULL;
}

static int within(int x, int limit)
{
    return x < 0 ? 0 : x > limit ? limit : x;
}

void canvas_fill(struct canvas *c, int x, int y, int width, int height, uint32_t colour)
{
    int left = within(x, c->width), right = within(x + width, c->width),
        bottom = within(y + height, c->height);
    for (int row = within(y, c->height); row < bottom; row++)
        for (int column = left; column < right; column++)
            c->pixels[(size_t)row * (size_t)c->width + (size_t)column] = colour;
}

static void draw_letter(struct canvas *c, int x, int y, int scale, uint32_t colour, const unsigned char *rows)
{
    for (int row = 0; row < FONT_ROWS; row++)
        for (int column = 0; column < FONT_WIDTH; column++)
            if (rows[row] >> (FONT_WIDTH - 1 - column) & 1)
                canvas_fill(c, x + column * scale, y + row * scale, scale, scale, colour);
}

int canvas_text(struct canvas *c, int x, int y, int scale, uint32_t colour, const char *text)
{
    for (; *text; text++, x += FONT_ADVANCE * scale)
        draw_letter(c, x, y, scale, colour, font_rows(*text));
    return x;
}
