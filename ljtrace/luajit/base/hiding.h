/* hiding.h - the thread whose allocations are not recorded. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_BASE_HIDING_H
#define LJTRACE_LUAJIT_BASE_HIDING_H

#include "pub_tool_basics.h"

/* Begin or end hiding: what this thread allocates meanwhile is the recorder's own (in the preload), and is
 * not recorded. */
void lt_hide(ThreadId tid, Bool hide);
Bool lt_is_hiding(ThreadId tid);

#endif
