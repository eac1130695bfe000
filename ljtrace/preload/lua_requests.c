/* lua_requests.c - functions for Lua scripts, which cannot make Valgrind's client requests.
 *
 * The Lua module (ljtrace/lua/ljtrace.lua) calls them by FFI. It finds them because the preload is in the
 * global scope of the program; if they are missing, the program is not being recorded. They have no state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/ljtrace.h"

int ljtrace_script_running(void);
void ljtrace_script_switch(int on);
void ljtrace_script_mark(const char *name);
void ljtrace_script_snapshot(const char *name);

/* Return 1 under Valgrind, else 0. */
int ljtrace_script_running(void)
{
    return RUNNING_ON_VALGRIND != 0;
}

/* Switch the recording of accesses on or off. Heap events are always recorded. */
void ljtrace_script_switch(int on)
{
    if (on)
        LJTRACE_START();
    else
        LJTRACE_STOP();
}

void ljtrace_script_mark(const char *name)
{
    LJTRACE_MARK(name);
}

/* Write a snapshot and a mark of this name, in this order: a window that ends at the mark has the snapshot. All events
 * before are then in the file. */
void ljtrace_script_snapshot(const char *name)
{
    LJTRACE_SNAPSHOT_NAMED(name);
    LJTRACE_MARK(name);
}
