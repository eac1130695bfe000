/* timer_signals.c - a stopped timer's last signal comes before the timer is known to be stopped. (host side, no
 * libc; see timer_signals.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel delivers what has expired before a call that sets a timer returns, and programs rely on it:
 * LuaJIT's profiler (`luajit -jp`, jit.profile) stops its timer, then gives SIGPROF its old action back,
 * which is to end the process. Valgrind keeps signals blocked while the program computes, and looks for them
 * from time to time; one that came in between would be delivered after the action has changed. So we look for
 * them when the call returns. Here and not around libc's functions, so that it holds for static programs as
 * well.
 */
#include "ljtrace/tool/base/timer_signals.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum {
    SIGNALS_AT_ONCE = 4
}; /* one look delivers one signal, and others may be waiting ahead of the timer's */

/* What Valgrind's own wrappers of kill and the like have called at this point; no tool's header has it, so
 * configure looks for it. Without it signals come when Valgrind looks next. */
#if LT_CAN_POLL
void VG_(poll_signals)(ThreadId tid);
#else
static void VG_(poll_signals)(ThreadId tid)
{
}
#endif

static Bool sets_timer(UInt number)
{
    return number == __NR_setitimer || number == __NR_alarm || number == __NR_timer_settime ||
           number == __NR_timer_delete;
}

void lt_signals_after(ThreadId tid, UInt number, Long result)
{
    if (!sets_timer(number) || result < 0)
        return;
    for (UInt i = 0; i < SIGNALS_AT_ONCE; i++)
        VG_(poll_signals)(tid);
}
