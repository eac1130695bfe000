/* timer_signals.h - deliver the last signal of a timer before the call that stops it returns. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_BASE_TIMER_SIGNALS_H
#define LJTRACE_VALGRIND_BASE_TIMER_SIGNALS_H

#include "pub_tool_basics.h"

/* Call after each system call of the program. result: the kernel's result, which is negative if it is an errno. */
void lt_signals_after(ThreadId tid, UInt number, Long result);

#endif
