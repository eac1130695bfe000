/* worker.h - the process in which one driver does one job.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_WORKER_H
#define DRIVERS_WORKER_H

#define WORKER_ARGUMENT "--worker" /* how steve-replay calls itself for it */

/* Do the job in shared memory at SHARED_FD. Returns the exit status; all else is in shared memory. */
int worker_main(void);

#endif
