/* supervise.h - start the process of a driver, watch it, and say what became of it.
 *
 * A driver that crashes, or does nothing more for `timeout` seconds, is ended and reported with the operation
 * it was at; what it had put in shared memory is kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_SUPERVISE_H
#define DRIVERS_SUPERVISOR_SUPERVISE_H

#include "drivers/base/shared.h"

struct supervisor {
    const char *label; /* for messages and the progress line */
    unsigned timeout;  /* seconds without any progress, 0 = for ever */
    bool quiet;        /* no progress line */
};

/* Run shared->job in a fresh process. fds: the shared memory's, the plan's (-1: none), the frames' (-1: none). The
 * result is shared->status, never STATUS_RUNNING, and shared->text. */
void supervise(const struct supervisor *s, struct shared *shared, int shared_fd, int plan_fd, int frames_fd);

/* To be called once at the start of main: the environment that the processes get. */
void supervise_prepare(void);

#endif
