/* painter.h - the film of a replay: frames of the heap, written raw to ffmpeg.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_PAINTER_H
#define DRIVERS_FILM_PAINTER_H

#include "drivers/run/engine.h"

/* Replay and write frames of job.film.width x height pixels (of a movie yuv420p, else bgr0) to FRAMES_FD: of
 * a movie after every per_frame operations or allocated bytes and after the last operation, of a still after
 * operation `at`, of a poster one in the end. */
void painter_run(struct engine *e);

#endif
