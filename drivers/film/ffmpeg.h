/* ffmpeg.h - runs the program that draws the scenes of a replay, and ffmpeg, which gets its frames through a pipe.
 *
 * Neither a shell nor files of single frames are used. The film is written to a temporary file and renamed when it is
 * complete.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_FILM_FFMPEG_H
#define DRIVERS_FILM_FFMPEG_H

#include "drivers/base/outfile.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct encoder {
    struct outfile file;
    pid_t ffmpeg, painter;
    int scenes; /* descriptor for the scenes (scene.h) */
};

/* Check that a film (or PNG) may have this name. Returns NULL, or a description of the error. */
const char *encoder_fault(const char *path, bool still);

/* Is ffmpeg installed? If not, prints an error. */
bool encoder_there(void);

/* Check that the file can be created, and remove it again. `inputs`: see drivers/base/outfile.h. Returns EXIT_CONTINUE, or,
 * after printing an error, the exit status. */
int encoder_can_write(const char *path, const char *const *inputs, enum outfile_kind kind);

/* Start ffmpeg and the painter, whose path is given. False after printing an error. */
bool encoder_start(struct encoder *e, const char *painter, const char *path, bool still, uint32_t width,
                   uint32_t height, uint32_t fps);

/* Close the pipe, wait for both programs, and put the file in place, or remove it if `keep` is false. False
 * after printing an error. */
bool encoder_finish(struct encoder *e, bool keep);

#endif
