/* lt_thread.c - see lt_thread.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_thread.h"
#include "lt_lua.h"
#include "lt_peek.h"
#include "lt_ring.h"
#include "lt_toggle.h"

static ThreadId s_thread;

void lt_thread_runs(ThreadId tid)
{
    if (tid == s_thread)
        return;
    lt_peek_forget();
    s_thread = tid;
    lt_ring_put(RAW_THREAD, tid, NULL, 0, NULL, 0);
    lt_lua_thread(tid);
    lt_toggle_thread(tid);
}
