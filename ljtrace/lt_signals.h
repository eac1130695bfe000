/* lt_signals.h - a stopped timer's last signal. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LT_SIGNALS_H
#define LT_SIGNALS_H

#include "pub_tool_basics.h"

/* A thread's system call has ended, with this result (negative: an error). */
void lt_signals_after(ThreadId tid, UInt number, Long result);

#endif
