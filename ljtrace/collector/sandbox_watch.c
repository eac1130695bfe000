/* sandbox_watch.c - looks for seccomp filters of the traced program, from outside; see sandbox_watch.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A thread of the program has the line `Seccomp_filters: N` in /proc, and on kernels before 5.9 only `Seccomp: 2`. Strict
 * mode is `Seccomp: 1`. The first thread is read at each look, since most programs install their filters in it.
 */
#include "ljtrace/collector/sandbox_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT_ONCE = 4, STATUS_BYTES = 4096 };

/* The number in a line of the file; -1 = there is no such line. */
static long number_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

static bool has_more(int pid, long thread, uint32_t known)
{
    char path[64], text[STATUS_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task/%ld/status", pid, thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const long mode = number_of(text, "\nSeccomp:"), filters = number_of(text, "\nSeccomp_filters:");
    return mode == 1 || (filters >= 0 ? filters > (long)known : mode > 0 && known == 0);
}

/* The next thread; 0 = there is none. */
static long next_thread(struct sandbox_watch *w)
{
    char path[32];
    if (!w->threads) {
        snprintf(path, sizeof path, "/proc/%d/task", w->pid);
        w->threads = opendir(path);
    }
    for (struct dirent *entry; w->threads && (entry = readdir(w->threads));)
        if (entry->d_name[0] != '.')
            return strtol(entry->d_name, NULL, 10);
    if (w->threads)
        closedir(w->threads);
    w->threads = NULL;
    return 0;
}

bool sandbox_watch_look(struct sandbox_watch *w, uint32_t known)
{
    bool found = has_more(w->pid, w->pid, known);
    for (int i = 0; i < AT_ONCE && !found; i++) {
        const long thread = next_thread(w);
        if (!thread)
            break;
        found = thread != w->pid && has_more(w->pid, thread, known);
    }
    return found;
}
