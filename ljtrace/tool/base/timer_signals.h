/* timer_signals.h - a stopped timer's last signal. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_BASE_TIMER_SIGNALS_H
#define LJTRACE_TOOL_BASE_TIMER_SIGNALS_H

#include "pub_tool_basics.h"

/* A thread's system call has ended, with this result (negative: an error). */
void lt_signals_after(ThreadId tid, UInt number, Long result);

#endif
