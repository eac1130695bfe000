/* options.c - the options of the reader of LuaJIT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/options.h"

struct luajit_options luajit_options;

/* -- the thread that hides -- */

static uint32_t s_hiding; /* 0 = none */

void lt_hide(uint32_t tid, bool hide)
{
    s_hiding = hide ? tid : 0;
}

bool lt_is_hiding(uint32_t tid)
{
    return s_hiding == tid;
}
