/* yuv.h - converts frames to the format of video encoders.
 *
 * ffmpeg receives a film as planar YUV with subsampled colour. This is 1.5 bytes per pixel in the pipe instead of 4,
 * and saves a conversion in ffmpeg that would take longer than the drawing.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_YUV_H
#define DRIVERS_PAINTER_YUV_H

#include "drivers/painter/canvas.h"

#include <stddef.h>

/* Size of a frame in bytes; width and height are even. */
size_t yuv_bytes(int width, int height);
/* Convert the canvas to yuv420p by ITU-R BT.601, limited range, into `out`, which has yuv_bytes. The colour of 2 x
 * 2 pixels is their mean. */
void yuv_from_canvas(unsigned char *out, const struct canvas *c);

#endif
