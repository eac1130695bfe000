/* ffmpeg.c - starts the painter and ffmpeg, connected by pipes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/ffmpeg.h"
#include "drivers/base/exit_status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Options for x264. Its deblocking filter and its finer searches take half of the time and improve pictures of
 * cells little. Without them, a film of 1920x1080 is encoded at 60 or more frames per second on two processors. */
#define X264                                                                                                 \
    {                                                                                                        \
        "-c:v", "libx264", "-preset", "superfast", "-crf", "20", "-x264-params",                             \
            "no-deblock=1:me=dia:subme=0:partitions=none:bframes=0", "-pix_fmt", "yuv420p"                   \
    }

/* Options of ffmpeg for each kind of file; NULL ends the list. WebM is encoded as VP8 in one thread, because the
 * other processor paints the frames, and several encoder threads would wait for each other. VP9 at its fastest
 * setting takes twice as long for such pictures, and shows them no better at a similar size. */
static const struct kind {
    const char *ending, *format;
    const char *codec[20];
} s_kinds[] = {
    {".mp4", "mp4", X264},
    {".mkv", "matroska", X264},
    {".avi", "avi", {"-c:v", "mpeg4", "-q:v", "3", "-pix_fmt", "yuv420p"}},
    {".webm",
     "webm",
     {"-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "-16", "-qmin", "16", "-qmax", "30", "-b:v",
      "10M", "-lag-in-frames", "0", "-threads", "1", "-pix_fmt", "yuv420p"}},
    {".png", "image2", {"-frames:v", "1", "-c:v", "png", "-update", "1"}},
};
enum { KINDS = sizeof s_kinds / sizeof s_kinds[0], PICTURE = KINDS - 1, MOST_ARGUMENTS = 40 };

static const struct kind *kind_of(const char *path, bool still)
{
    size_t n = strlen(path);
    for (int i = still ? PICTURE : 0; i < (still ? KINDS : PICTURE); i++) {
        size_t m = strlen(s_kinds[i].ending);
        if (n > m && strcasecmp(path + n - m, s_kinds[i].ending) == 0)
            return &s_kinds[i];
    }
    return NULL;
}

const char *encoder_fault(const char *path, bool still)
{
    if (!kind_of(path, still))
        return still ? "a picture's name must end in .png"
                     : "a film's name must end in .mp4, .avi, .mkv or .webm";
    if (strlen(path) > 4000)
        return "the name is too long";
    return NULL;
}

static const char *program(void)
{
    const char *set = getenv("FFMPEG");
    return set && *set ? set : FFMPEG_PATH;
}

static bool is_program(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

/* Find a program in PATH, as execvp does. */
static bool on_path(const char *name)
{
    const char *path = getenv("PATH");
    char list[16384], full[PATH_MAX], *rest = list, *folder;
    snprintf(list, sizeof list, "%s", path ? path : "/bin:/usr/bin");
    while ((folder = strsep(&rest, ":")))
        if (snprintf(full, sizeof full, "%s/%s", *folder ? folder : ".", name) < (int)sizeof full &&
            is_program(full))
            return true;
    return false;
}

bool encoder_there(void)
{
    const char *name = program();
    if (strchr(name, '/') ? is_program(name) : on_path(name))
        return true;
    fprintf(stderr,
            "steve-replay: cannot run %s: there is no such program: install Debian's ffmpeg, or set FFMPEG "
            "to its "
            "path\n",
            name);
    return false;
}

static void run_ffmpeg(const struct encoder *e, const struct kind *k, const char *size, const char *rate)
{
    const char *pixels = k == &s_kinds[PICTURE] ? "bgr0" : "yuv420p";
    const char *argv[MOST_ARGUMENTS] = {program(),  "-hide_banner", "-loglevel", "error", "-y", "-f",
                                        "rawvideo", "-pix_fmt",     pixels,      "-s",    size, "-r",
                                        rate,       "-i",           "-",         "-an"};
    int n = 16;
    for (int i = 0; k->codec[i]; i++)
        argv[n++] = k->codec[i];
    argv[n++] = "-f";
    argv[n++] = k->format;
    argv[n++] = e->file.temporary;
    execvp(argv[0], (char *const *)argv);
    fprintf(stderr, "steve-replay: cannot run %s: %s: install Debian's ffmpeg, or set FFMPEG to its path\n",
            argv[0], strerror(errno));
    _exit(127);
}

int encoder_can_write(const char *path, const char *const *inputs, enum outfile_kind kind)
{
    struct outfile file;
    int status = outfile_resolve(&file, path, inputs, kind);
    if (status != EXIT_CONTINUE)
        return status;
    if (!outfile_begin(&file))
        return EXIT_BAD;
    outfile_abandon(&file);
    return EXIT_CONTINUE;
}

/* More than a scene at once, so that the replay need not wait for the painter. */
enum { PIPE_BYTES = 1 << 20 };

/* Start a process whose standard input is `in` and whose standard output is `out`, -1 = as that of this process. Returns 0 in
 * that process, -1 on failure. Other descriptors are closed by exec. */
static pid_t start(int in, int out)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    signal(SIGPIPE, SIG_DFL);
    if (dup2(in, STDIN_FILENO) < 0 || (out >= 0 && dup2(out, STDOUT_FILENO) < 0)) {
        fprintf(stderr, "steve-replay: cannot start a process for the film: %s\n", strerror(errno));
        _exit(127);
    }
    return 0;
}

static void run_painter(const char *path)
{
    execl(path, path, (char *)NULL);
    fprintf(stderr, "steve-replay: cannot run %s: %s\n", path, strerror(errno));
    _exit(127);
}

static int end_of(pid_t process)
{
    int status = 0;
    while (process > 0 && waitpid(process, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

bool encoder_start(struct encoder *e, const char *painter, const char *path, bool still, uint32_t width,
                   uint32_t height, uint32_t fps)
{
    char size[32], rate[16];
    int scenes[2] = {-1, -1}, frames[2] = {-1, -1};
    /* the file is not an input and may be replaced: encoder_can_write has checked this */
    static const char *const none[] = {NULL};
    if (outfile_resolve(&e->file, path, none, OUTFILE_ANY) != EXIT_CONTINUE || !outfile_begin(&e->file))
        return false;
    snprintf(size, sizeof size, "%ux%u", width, height);
    snprintf(rate, sizeof rate, "%u", fps);
    e->ffmpeg = e->painter = -1;
    if (pipe2(scenes, O_CLOEXEC) == 0 && pipe2(frames, O_CLOEXEC) == 0 &&
        (e->ffmpeg = start(frames[0], -1)) == 0)
        run_ffmpeg(e, kind_of(path, still), size, rate);
    if (e->ffmpeg > 0 && (e->painter = start(scenes[0], frames[1])) == 0)
        run_painter(painter);
    int error = errno;
    fcntl(scenes[1], F_SETPIPE_SZ, PIPE_BYTES); /* less is good, too */
    close(scenes[0]);
    close(frames[0]);
    close(frames[1]);
    e->scenes = scenes[1];
    if (e->painter > 0)
        return true;
    close(e->scenes);
    end_of(e->ffmpeg);
    outfile_abandon(&e->file);
    fprintf(stderr, "steve-replay: cannot start ffmpeg: %s\n", strerror(error));
    return false;
}

static bool has_spoken(int status)
{
    return WIFEXITED(status) &&
           WEXITSTATUS(status) == 127; /* start or exec failed, and the child has printed the error */
}

bool encoder_finish(struct encoder *e, bool keep)
{
    close(e->scenes);
    int painter = end_of(e->painter), ffmpeg = end_of(e->ffmpeg);
    if (keep && ffmpeg == 0 && painter == 0)
        return outfile_finish(&e->file);
    outfile_abandon(&e->file);
    if (keep && !has_spoken(ffmpeg) && !has_spoken(painter))
        fprintf(stderr, "steve-replay: %s: not written: %s failed\n", e->file.path,
                ffmpeg ? "ffmpeg" : "drawing");
    return !keep;
}
