/* worker.h - the process in which one driver does one job.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_WORKER_H
#define DRIVERS_WORKER_H

#define WORKER_ARGUMENT "--worker" /* argument with which steve-replay starts itself as a worker */

/* Do the job in the shared memory at SHARED_FD and return the exit status. All other results are in shared memory. */
int worker_main(void);

#endif
