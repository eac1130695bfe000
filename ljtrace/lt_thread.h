/* lt_thread.h - which thread the words of the ring are of. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LT_THREAD_H
#define LT_THREAD_H

#include "pub_tool_basics.h"

/* What is put into the ring from here on is this thread's. To be called wherever one may follow another: when
 * its code runs on, and when a system call of its is told of, since the core tells what a call did before
 * that. */
void lt_thread_runs(ThreadId tid);

#endif
