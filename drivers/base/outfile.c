/* outfile.c - determines where an output file goes, and puts it there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/outfile.h"
#include "drivers/base/exit_status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40, COPIED = 65536 };

/* -- an unfinished file is removed when the program is interrupted -- */

static char s_guarded[PATH_MAX + 64];
static volatile sig_atomic_t s_guarding;

static void on_signal(int signal_number)
{
    if (s_guarding)
        unlink(s_guarded);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Remove this file if SIGINT, SIGTERM or SIGHUP ends the program. NULL: remove none. One file at a time. */
static void guard(const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    s_guarding = 0;
    if (!path)
        return;
    snprintf(s_guarded, sizeof s_guarded, "%s", path);
    s_guarding = 1;
    for (unsigned i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signal(signals[i], on_signal) == SIG_IGN)
            signal(signals[i], SIG_IGN); /* stays ignored, as nohup requires */
}

/* -- where the file goes -- */

static bool cannot_write(const struct outfile *f)
{
    fprintf(stderr, "steve-replay: %s: cannot be written: %s\n", f->path, strerror(errno));
    return false;
}

static bool is_input(const struct stat *file, const char *const *inputs)
{
    struct stat input;
    for (; *inputs; inputs++) {
        const char *path = strcmp(*inputs, "-") == 0 ? "/dev/stdin" : *inputs;
        if (stat(path, &input) == 0 && S_ISREG(input.st_mode) && input.st_dev == file->st_dev &&
            input.st_ino == file->st_ino)
            return true;
    }
    return false;
}

/* Has a file the size that its first numbers say: how many blocks and pages it has, after the number of operations? */
static bool is_places(const char *head, size_t n, uint64_t size)
{
    uint64_t counts[3];
    if (n < sizeof counts)
        return false;
    memcpy(counts, head, sizeof counts);
    const uint64_t most = size / sizeof counts;
    return counts[1] < most && counts[2] < most && (1 + counts[1] + counts[2]) * sizeof counts == size;
}

/* Is a file, by its beginning, of this kind? */
static bool is_of_kind(enum outfile_kind kind, const char *head, size_t n, uint64_t size)
{
#define AT(offset, text)                                                                                     \
    (n >= (offset) + sizeof(text) - 1 && memcmp(head + (offset), text, sizeof(text) - 1) == 0)
    switch (kind) {
    case OUTFILE_ANY:
        return true;
    case OUTFILE_RESULT:
        return AT(0, "driver = ");
    case OUTFILE_PLACES:
        return is_places(head, n, size);
    case OUTFILE_USAGE:
        return AT(0, "{\"status\": ");
    case OUTFILE_FILM:
        return AT(4, "ftyp") || (AT(0, "RIFF") && AT(8, "AVI ")) || AT(0, "\x1a\x45\xdf\xa3");
    case OUTFILE_PICTURE:
        return AT(0, "\x89PNG");
    }
#undef AT
    return false;
}

/* May the file be replaced? A file that cannot be read may not. */
static bool may_replace(const char *path, const struct stat *file, enum outfile_kind kind)
{
    char head[32];
    if (kind == OUTFILE_ANY || !S_ISREG(file->st_mode) || file->st_size == 0)
        return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    return n > 0 && is_of_kind(kind, head, (size_t)n, (uint64_t)file->st_size);
}

/* Replace *target, a symbolic link, by its target. False on error, with errno set. */
static bool follow(char target[PATH_MAX], const char *to)
{
    char next[PATH_MAX];
    const char *slash = strrchr(target, '/');
    int folder = to[0] == '/' || !slash ? 0 : (int)(slash + 1 - target);
    if (snprintf(next, sizeof next, "%.*s%s", folder, target, to) >= (int)sizeof next) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(target, next, sizeof next);
    return true;
}

/* Follow links to the file, which need not exist. False on error, with errno set. */
static bool resolve(const char *path, char target[PATH_MAX])
{
    char to[PATH_MAX];
    if (snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (int i = 0; i < MOST_LINKS; i++) {
        ssize_t n = readlink(target, to, sizeof to - 1);
        if (n < 0) /* no link, or no such file: creating the file reports errors */
            return true;
        to[n] = 0;
        if (!follow(target, to))
            return false;
    }
    errno = ELOOP;
    return false;
}

/* A device or a pipe gets its data from a temporary file. */
static void name_aside(struct outfile *f)
{
    const char *folder = getenv("TMPDIR");
    if (f->special)
        snprintf(f->temporary, sizeof f->temporary, "%s/steve-replay.XXXXXX",
                 folder && *folder ? folder : "/tmp");
    else
        snprintf(f->temporary, sizeof f->temporary, "%s.%ld.part", f->target, (long)getpid());
}

int outfile_resolve(struct outfile *f, const char *path, const char *const *inputs, enum outfile_kind kind)
{
    struct stat s;
    f->path = path;
    f->special = false;
    if (stat(path, &s) == 0) {
        if (S_ISDIR(s.st_mode)) {
            fprintf(stderr, "steve-replay: %s: is a folder; name a file\n", path);
            return EXIT_BAD;
        }
        if (is_input(&s, inputs)) {
            fprintf(stderr,
                    "steve-replay: %s: is what the command reads; name another file\n"
                    "Try 'steve-replay --help'.\n",
                    path);
            return EXIT_USAGE;
        }
        if (!may_replace(path, &s, kind)) {
            fprintf(stderr,
                    "steve-replay: %s: is no earlier result of this command; -f replaces it, and -o names "
                    "another "
                    "file\nTry 'steve-replay --help'.\n",
                    path);
            return EXIT_USAGE;
        }
        f->special = !S_ISREG(s.st_mode);
    }
    if (!resolve(path, f->target) || (f->special && access(path, W_OK) != 0)) {
        cannot_write(f);
        return EXIT_BAD;
    }
    name_aside(f);
    return EXIT_CONTINUE;
}

bool outfile_begin(struct outfile *f)
{
    int fd = f->special ? mkostemp(f->temporary, O_CLOEXEC)
                        : open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return cannot_write(f);
    close(fd);
    guard(f->temporary);
    return true;
}

static bool write_all(int fd, const char *p, size_t left)
{
    while (left) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            p += n;
            left -= (size_t)n;
        }
    }
    return true;
}

/* Copy the temporary file to the device or pipe. */
static bool copy_out(const struct outfile *f)
{
    static char buffer[COPIED];
    int in = open(f->temporary, O_RDONLY | O_CLOEXEC), out = open(f->path, O_WRONLY | O_CLOEXEC);
    ssize_t n = -1;
    bool good = in >= 0 && out >= 0;
    while (good && (n = read(in, buffer, sizeof buffer)) > 0)
        good = write_all(out, buffer, (size_t)n);
    int reason = errno;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    errno = reason;
    return good && n == 0;
}

/* Give the new file the permissions of the file that it replaces. */
static bool put_in_place(const struct outfile *f)
{
    struct stat s;
    if (stat(f->target, &s) == 0 && chmod(f->temporary, s.st_mode & 07777) != 0)
        return false;
    return rename(f->temporary, f->target) == 0;
}

bool outfile_finish(struct outfile *f)
{
    bool good = f->special ? copy_out(f) : put_in_place(f);
    if (!good)
        cannot_write(f);
    if (!good || f->special)
        unlink(f->temporary);
    guard(NULL);
    return good;
}

void outfile_abandon(struct outfile *f)
{
    unlink(f->temporary);
    guard(NULL);
}
