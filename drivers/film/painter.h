/* painter.h - the film of a replay: frames of the heap, written raw to ffmpeg.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_PAINTER_H
#define DRIVERS_FILM_PAINTER_H

#include "drivers/run/engine.h"

/* Replay and write frames of job.film.width x height pixels to FRAMES_FD, as yuv420p for a film, otherwise as
 * bgr0. A film has a frame every per_frame operations or allocated bytes, and one after the last operation. A
 * still has one frame, after operation `at`. A poster has one, at the end. */
void painter_run(struct engine *e);

#endif
