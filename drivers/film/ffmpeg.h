/* ffmpeg.h - ffmpeg, fed with raw frames through a pipe.
 *
 * No shell and no frame files. The film is written to a temporary file and renamed when it is whole.
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
    int frames; /* write raw frames here: of a film yuv420p, of a picture bgr0 */
};

/* Can a film (or PNG) of this name be made? NULL, or what is wrong. */
const char *encoder_fault(const char *path, bool still);

/* Is ffmpeg there? False: told on standard error. */
bool encoder_there(void);

/* Can a file be made where this one is to be? `inputs` as in drivers/base/outfile.h. -1: yes; else the exit status, the reason
 * was printed. Leaves nothing. */
int encoder_can_write(const char *path, const char *const *inputs);

/* Start ffmpeg. False: told on standard error. */
bool encoder_start(struct encoder *e, const char *path, bool still, uint32_t width, uint32_t height,
                   uint32_t fps);

/* Close the pipe if it is still open, wait, and put the file in place (or, unless `keep`, drop it). False:
 * told. */
bool encoder_finish(struct encoder *e, bool keep);

#endif
