/* supervise.h - starts the process of a driver, watches it, and reports how it ended.
 *
 * A driver that crashes, or makes no progress for `timeout` seconds, is terminated and reported with its current
 * operation. Its results so far, in shared memory, are kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_SUPERVISE_H
#define DRIVERS_SUPERVISOR_SUPERVISE_H

#include "drivers/base/shared.h"

struct supervise_options {
    const char *label; /* for messages and the progress line */
    unsigned timeout;  /* seconds without progress, 0 = no timeout */
    bool quiet;        /* no progress line */
};

/* Run shared->job in a fresh process. shared_fd is the file of the shared memory; plan_fd is the file of the plan, and
 * frames_fd the pipe for frames of a film; each of these is -1 if there is none. The result is shared->status, which
 * is never STATUS_RUNNING, and shared->text. */
void supervise(const struct supervise_options *s, struct shared *shared, int shared_fd, int plan_fd,
               int frames_fd);

/* Called once at the start of main: sets up the environment of the processes. */
void supervise_prepare(void);

#endif
