/* outfile.h - where an output file goes: links, devices, pipes, and files that must not be replaced.
 *
 * A file is written to a temporary file and renamed when it is complete. The target of a symbolic link is replaced,
 * not the link. A device or a pipe stays what it is: the finished bytes are written to it. A file that the command
 * reads is refused, and so is one that is no earlier result of the command, since a mistyped -o would destroy it. This does
 * not write the contents; drivers/commands/result.c and drivers/film/ffmpeg.c do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_OUTFILE_H
#define DRIVERS_BASE_OUTFILE_H

#include <limits.h>
#include <stdbool.h>

/* What a command writes. Without -f it replaces only files of this kind, and empty ones. */
enum outfile_kind {
    OUTFILE_ANY, /* replace any file */
    OUTFILE_RESULT,
    OUTFILE_PLACES,
    OUTFILE_USAGE, /* what --run writes */
    OUTFILE_FILM,
    OUTFILE_PICTURE
};

struct outfile {
    const char *path;              /* as given */
    char target[PATH_MAX];         /* the file, after following all links */
    char temporary[PATH_MAX + 64]; /* the file to write to */
    bool special;                  /* a device or a pipe */
};

/* Determine where `path` leads, and choose the name of the temporary file. `inputs` are the files that the command
 * reads, ending with NULL ("-" is standard input). Returns EXIT_CONTINUE, or, after printing an error, the exit status. */
int outfile_resolve(struct outfile *f, const char *path, const char *const *inputs, enum outfile_kind kind);

/* Create the empty temporary file. False after printing an error. */
bool outfile_begin(struct outfile *f);

/* Put the temporary file in place, or remove it (outfile_abandon). On error it is removed, too; prints the error
 * and returns false. */
bool outfile_finish(struct outfile *f);
void outfile_abandon(struct outfile *f);

#endif
