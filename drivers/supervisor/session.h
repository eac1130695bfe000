/* session.h - one ops file and one allocator: what allocstats and memplot have in common.
 *
 * Finds the driver, asks what it is, reads the ops file, settles the size of the heap, and runs jobs.
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
    struct job job;      /* what the jobs have in common */
    bool heap_raised;    /* the factor gave less than the allocator can start in */
    struct shared *shared; /* of the last job */
    int shared_fd;
};

/* Everything ready to run jobs. -1: it is; else an exit status, the trouble has been told. */
int session_open(struct session *s, const struct options *o);
void session_close(struct session *s);

/* Run a job; s->shared holds the result until the next. `room`: data points at most. */
enum job_status session_run(struct session *s, enum job_kind kind, uint64_t room, int frames_fd);

/* Tell on standard error how the last job failed (STATUS_FAILED or STATUS_NO_ROOM); gives the exit status. */
int session_complain(const struct session *s);
/* The same text, for the result file. */
void session_describe(const struct session *s, char *text, size_t size);

/* Ask a driver what it is. False: *text says why it cannot be used. */
bool session_info(const char *path, struct shared_info *info, char *text, size_t size);

#endif
