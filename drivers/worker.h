/* worker.h - the process in which one driver does one job.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_WORKER_H
#define DRIVERS_WORKER_H

#define WORKER_ARGUMENT "--worker" /* how steve-replay calls itself for it */

/* Do the job on the board at BOARD_FD. Returns the exit status; all else is on the board. */
int worker_main(void);

#endif
