/* requests.h - recording on and off, marks and snapshots, on request of the program or of vgdb.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Off means that accesses are not recorded. Heap events are always recorded: without them, later accesses
 * could not be attributed to their blocks.
 */
#ifndef LJTRACE_VALGRIND_SESSION_REQUESTS_H
#define LJTRACE_VALGRIND_SESSION_REQUESTS_H

/* Register the requests with the core. */
void lt_requests_init(void);
/* Call when the ring is open. Switches the recording of accesses off for --start-off. */
void lt_requests_start(void);

#endif
