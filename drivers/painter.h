/* painter.h - the film of a replay: frames of the heap, written raw to ffmpeg.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PAINTER_H
#define DRIVERS_PAINTER_H

#include "drivers/engine.h"

/* Replay and write a frame of job.film.width x height 32-bit pixels (bgr0) to FRAMES_FD after every
 * ops_per_frame operations and after the last, or with `still` only after the last. */
void painter_run(struct engine *e);

#endif
