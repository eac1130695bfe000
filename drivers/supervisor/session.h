/* session.h - one ops file and one allocator: what allocstats and memplot have in common.
 *
 * It finds the driver, reads its properties and the ops file, determines the size of the heap, and runs jobs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_SESSION_H
#define DRIVERS_SUPERVISOR_SESSION_H

#include "drivers/supervisor/options.h"
#include "drivers/supervisor/supervise.h"

struct session {
    const struct options *options;
    struct plan plan;
    struct shared_info info;
    struct job job;        /* the part that all jobs have in common */
    bool heap_raised;      /* the factor gave a heap in which the allocator may not start */
    struct shared *shared; /* of the last job */
    int shared_fd;
};

/* Prepare for jobs. Returns EXIT_CONTINUE, or, after printing an error, the exit status. */
int session_open(struct session *s, const struct options *o);
void session_close(struct session *s);

/* Run a job. s->shared has the result until the next job. `room` is the maximum number of data points. */
enum job_status session_run(struct session *s, enum job_kind kind, uint64_t room, int frames_fd);

/* Print how the last job failed (STATUS_FAILED or STATUS_NO_ROOM) and return the exit status. */
int session_complain(const struct session *s);
/* The same text, for the result file. */
void session_describe(const struct session *s, char *text, size_t size);

/* Read the properties of a driver. False if it cannot be used; *text says why. */
bool session_info(const char *path, struct shared_info *info, char *text, size_t size);

#endif
