/* camera.h - the film of a replay: scenes of the heap, for the program that draws them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_CAMERA_H
#define DRIVERS_FILM_CAMERA_H

#include "drivers/run/engine.h"

/* Replay and write scenes (scene.h) to FRAMES_FD. A film has a frame every per_frame operations or allocated bytes, and
 * one after the last operation. A still has one frame, after operation `at`. A poster has one, at the end. */
void camera_run(struct engine *e);

#endif
