/* requests.c - requests of the program: LJTRACE_MARK of ljtrace.h, and those of the Lua module ljtrace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * There are no accesses that could be switched off.
 */
#include "ljtrace/native/inside/events.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/lua_snapshot.h"
#include "ljtrace/native/inside/lua_states.h"
#include "ljtrace/native/inside/maps.h"

#include <errno.h>
#include <string.h>

enum { MOST = 1000 /* bytes of a name */ };

NATIVE_PUBLIC void ljtrace_native_mark(const char *name);
NATIVE_PUBLIC void ljtrace_native_snapshot(const char *name);
NATIVE_PUBLIC int ljtrace_script_running(void);
NATIVE_PUBLIC void ljtrace_script_switch(int on);
NATIVE_PUBLIC void ljtrace_script_mark(const char *name);
NATIVE_PUBLIC void ljtrace_script_snapshot(const char *name);

void ljtrace_native_mark(const char *name)
{
    const int error = errno;
    lua_states_settle();
    if (native_is_on() && native_enter((uint64_t)__builtin_frame_address(0))) {
        native_name_thread();
        const uint32_t n = (uint32_t)kernel_text_length(name, MOST);
        NATIVE_PUT(mark, .instructions = native_now(), .name = {name, n});
        maps_look(name, n);
        native_leave();
    }
    errno = error;
}

int ljtrace_script_running(void)
{
    return native_is_on();
}

void ljtrace_script_switch(int on)
{
    (void)on;
}

void ljtrace_script_mark(const char *name)
{
    ljtrace_native_mark(name);
}

void ljtrace_native_snapshot(const char *name)
{
    char copy[MOST + 1];
    const char *wrong = NULL;
    const int error = errno;
    if (native_is_on() && native_enter((uint64_t)__builtin_frame_address(0))) {
        const uint32_t n = (uint32_t)kernel_text_length(name, MOST);
        memcpy(copy, name, n);
        copy[n] = 0;
        native_name_thread();
        wrong = lua_snapshot(copy);
        native_leave();
    }
    if (wrong)
        native_problem(wrong);
    errno = error;
}

void ljtrace_script_snapshot(const char *name)
{
    ljtrace_native_snapshot(name);
    ljtrace_native_mark(name);
}
