/* yuv.h - frames as video encoders want them.
 *
 * A film is handed to ffmpeg as planar YUV with quarter-size colour: 1.5 bytes per pixel through the pipe in
 * place of 4, and no conversion on the other side, which would cost more than the drawing.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_YUV_H
#define DRIVERS_FILM_YUV_H

#include "drivers/film/canvas.h"

#include <stddef.h>

/* Bytes of a frame; width and height are even. */
size_t yuv_bytes(int width, int height);
/* The canvas as yuv420p by ITU-R BT.601, limited range; `out` has yuv_bytes. Colour is the mean of 2 x 2. */
void yuv_from_canvas(unsigned char *out, const struct canvas *c);

#endif
