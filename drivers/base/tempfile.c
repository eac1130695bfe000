/* tempfile.c - removes an unfinished file when the program is interrupted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/tempfile.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static char s_path[PATH_MAX + 64];
static volatile sig_atomic_t s_guarding;

static void on_signal(int signal_number)
{
    if (s_guarding)
        unlink(s_path);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void tempfile_guard(const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    s_guarding = 0;
    if (!path)
        return;
    snprintf(s_path, sizeof s_path, "%s", path);
    s_guarding = 1;
    for (unsigned i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signal(signals[i], on_signal) == SIG_IGN)
            signal(signals[i], SIG_IGN); /* stays ignored, as nohup requires */
}
