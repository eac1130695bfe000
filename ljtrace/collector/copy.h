/* copy.h - read the snapshot that a copy of the program sends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_COLLECTOR_COPY_H
#define LJTRACE_COLLECTOR_COPY_H

#include "ljtrace/collector/feed.h"

/* Feed what comes from this socket (ljtrace/protocol/copies.h) until it is complete. Returns false if it is not: the copy
 * has ended, sends nothing for half a minute, or sends what is wrong. */
bool copy_read(int socket, struct feed *f);

/* Wait until the copy at the other end of this socket is gone, but not for long. Until then it shares the pages of
 * the program, so that the kernel counts each of them only half for the program (PSS). The kernel closes the
 * socket after it has freed the memory. */
void copy_wait_for_end(int socket);

#endif
