/* requests.h - recording on and off, marks: by request of the program or of vgdb. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Off means that accesses are not recorded. Heap events always are: without them nothing later could be told
 * to its block.
 */
#ifndef LJTRACE_TOOL_SESSION_REQUESTS_H
#define LJTRACE_TOOL_SESSION_REQUESTS_H

/* Register the requests with the core. */
void lt_control_init(void);
/* Call once the ring is up: obeys --start-off. */
void lt_control_start(void);

#endif
