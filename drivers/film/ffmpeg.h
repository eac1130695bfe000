/* ffmpeg.h - runs ffmpeg and feeds it with raw frames through a pipe.
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
    pid_t process;
    int frames; /* descriptor for raw frames: yuv420p for a film, bgr0 for a picture */
};

/* Check that a film (or PNG) may have this name. Returns NULL, or a description of the error. */
const char *encoder_fault(const char *path, bool still);

/* Is ffmpeg installed? If not, prints an error. */
bool encoder_there(void);

/* Check that the file can be created, and remove it again. `inputs`: see drivers/base/outfile.h. Returns EXIT_CONTINUE, or,
 * after printing an error, the exit status. */
int encoder_can_write(const char *path, const char *const *inputs);

/* Start ffmpeg. False after printing an error. */
bool encoder_start(struct encoder *e, const char *path, bool still, uint32_t width, uint32_t height,
                   uint32_t fps);

/* Close the pipe if it is open, wait for ffmpeg, and put the file in place, or remove it if `keep` is false. False
 * after printing an error. */
bool encoder_finish(struct encoder *e, bool keep);

#endif
