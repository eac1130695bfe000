/* hiding.c - the thread whose allocations are not recorded. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/hiding.h"

static ThreadId s_hiding; /* 0 = none */

void lt_hide(ThreadId tid, Bool hide)
{
    s_hiding = hide ? tid : 0;
}

Bool lt_is_hiding(ThreadId tid)
{
    return s_hiding == tid;
}
