/* exit_status.h - the exit statuses of steve-replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_EXIT_STATUS_H
#define DRIVERS_BASE_EXIT_STATUS_H

/* EXIT_BAD: bad input or a failure. EXIT_NO_ROOM: the allocator ran out of memory. */
/* EXIT_CONTINUE: what a function that returns an exit status returns if the command goes on. */
enum { EXIT_CONTINUE = -1, EXIT_DONE = 0, EXIT_BAD = 1, EXIT_USAGE = 2, EXIT_NO_ROOM = 2 };

#endif
