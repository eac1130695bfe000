/* timer_signals.c - deliver the last signal of a timer before the call that stops it returns. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * If a timer has expired, the kernel delivers its signal before a call that sets a timer returns. Programs
 * rely on this: LuaJIT's profiler (`luajit -jp`, jit.profile) stops its timer and then restores the old
 * action of SIGPROF, which ends the process. Valgrind blocks signals while the program computes, and polls
 * for them from time to time. So a signal could be delivered after the action was changed. Therefore the tool
 * polls for signals before such a call returns to the program. It does this here, and not in a wrapper of libc's
 * functions, so that it works for static programs too.
 */
#include "ljtrace/valgrind/base/timer_signals.h"
#include "ljtrace/valgrind/base/core.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { SIGNALS_AT_ONCE = 4 }; /* a poll delivers one signal, and others may be delivered before the timer's */

/* configure looks for this function. Without it signals are delivered when Valgrind polls next. */
#if !LT_CAN_POLL
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
