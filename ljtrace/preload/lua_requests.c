/* lua_requests.c - functions for scripts that cannot make Valgrind's client requests themselves. (guest preload)
 *
 * The Lua module (ljtrace/lua/ljtrace.lua) calls them by FFI; it finds them because the preload is in the
 * global scope of the program, and knows by their absence that there is no recorder. They have no state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/ljtrace.h"

int ljtrace_script_running(void);
void ljtrace_script_switch(int on);
void ljtrace_script_mark(const char *name);
void ljtrace_script_snapshot(const char *name);

/* 1 under Valgrind. */
int ljtrace_script_running(void)
{
    return RUNNING_ON_VALGRIND != 0;
}

/* Record accesses, or only heap events. */
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

/* A mark and a snapshot of that name; all before it goes into the file at once. */
void ljtrace_script_snapshot(const char *name)
{
    LJTRACE_MARK(name);
    LJTRACE_SNAPSHOT_NAMED(name);
}
