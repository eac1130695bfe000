/* serve.c - starts and ends `steve serve` for `ljtrace run` and `ljtrace attach`; see serve.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * It reads the file that the collector writes, so that profiles have the same frames and names as all views of steve, and
 * the collector does nothing else than without them.
 */
#define _GNU_SOURCE
#include "ljtrace/native/launcher/serve.h"
#include "ljtrace/protocol/trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOTIFY = 3 }; /* the descriptor of steve's --notify-fd */

bool serve_option(struct serve *s, const char *name, const char *value, const char **wrong)
{
    *wrong = NULL;
    if (strcmp(name, "http") == 0)
        s->http = value;
    else if (strcmp(name, "dump-every") == 0)
        *wrong =
            launcher_size(value, 1, &s->every) ? NULL : "--dump-every takes a number of bytes, such as 100m";
    else if (strcmp(name, "dump-high-water") == 0)
        *wrong = launcher_size(value, 1, &s->high_water)
                     ? NULL
                     : "--dump-high-water takes a number of bytes, such as 100m";
    else if (strcmp(name, "dump-signal") == 0)
        *wrong = (s->signal = launcher_signal(value)) ? NULL : "--dump-signal is USR1, USR2 or HUP";
    else
        return false;
    return true;
}

/* In the child: become steve. Returns if that is not possible. */
static void become_steve(const struct serve *s, const struct launcher *l, const char *file, int notify)
{
    const char *argv[20] = {"steve", "serve", "--until-end", "--notify-fd", "3"};
    int n = 5;
    char every[24], high_water[24];
    snprintf(every, sizeof every, "%" PRIu64, s->every);
    snprintf(high_water, sizeof high_water, "%" PRIu64, s->high_water);
    const struct {
        const char *name, *value;
    } options[] = {{"--http", s->http},
                   {"--dump-every", s->every ? every : NULL},
                   {"--dump-high-water", s->high_water ? high_water : NULL}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].value) {
            argv[n++] = options[i].name;
            argv[n++] = options[i].value;
        }
    char stem[PATH_MAX];
    const size_t length = strlen(file), ending = length > 4 && strcmp(file + length - 4, ".ljt") == 0 ? 4 : 0;
    snprintf(stem, sizeof stem, "%.*s", (int)(length - ending), file);
    argv[n++] = "--dump-to";
    argv[n++] = stem;
    argv[n++] = "--";
    argv[n++] = file;
    setsid(); /* signals of the terminal do not reach it */
    unsetenv("LD_PRELOAD");
    const int null = open("/dev/null", O_RDWR);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || dup2(notify, NOTIFY) < 0)
        return;
    closefrom(NOTIFY + 1);
    sigprocmask(SIG_SETMASK, &l->usual, NULL);
    execvp("steve", (char **)argv);
}

/* Start it. Returns false if it ended before it answered. */
static bool start(struct serve *s, const struct launcher *l, const char *file)
{
    int ready[2];
    char line[100];
    if (pipe2(ready, O_CLOEXEC) != 0)
        return false;
    s->process = fork();
    if (s->process == 0) {
        /* above the descriptor that steve gets */
        become_steve(s, l, file, fcntl(ready[1], F_DUPFD_CLOEXEC, 10));
        complain("cannot start steve: %s; --http and --dump-... need it", strerror(errno));
        _exit(LAUNCHER_FAILED);
    }
    close(ready[1]);
    ssize_t n = 0;
    while (s->process > 0 && (n = read(ready[0], line, sizeof line)) < 0 && errno == EINTR)
        ;
    close(ready[0]);
    return n > 0;
}

bool serve_start(struct serve *s, const struct launcher *l)
{
    if (!s->http && !s->every && !s->high_water && !s->signal)
        return true;
    char *file = trace_name_expand(l->out, (int)l->recording.process);
    const bool is_file = file && file[0] != '|' && strcmp(file, "-") != 0;
    if (!is_file || l->recording.keep_last) {
        complain("--http and --dump-... need a file that is kept whole, not %s",
                 is_file ? "--keep=last" : l->out);
        free(file);
        return false;
    }
    const bool started = start(s, l, file);
    free(file);
    if (!started && s->process > 0)
        waitpid(s->process, NULL, 0);
    return started;
}

bool serve_signalled(const struct serve *s, int signal)
{
    if (!s->process || signal != s->signal)
        return false;
    kill(s->process, SIGUSR1);
    return true;
}

void serve_end(struct serve *s)
{
    int status;
    if (s->process && waitpid(s->process, &status, 0) == s->process && WIFSIGNALED(status))
        complain("steve serve was killed by signal %d; later dumps are missing", WTERMSIG(status));
}
