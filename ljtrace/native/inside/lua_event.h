/* lua_event.h - begin and end an event of a Lua heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_LUA_EVENT_H
#define LJTRACE_NATIVE_INSIDE_LUA_EVENT_H

#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/host/host.h"

/* Lock the ring, which also guards all that is known of Lua states. False: nothing is recorded. */
static inline __attribute__((always_inline)) bool lua_event_begin(void)
{
    if (!native_enter((uint64_t)__builtin_frame_address(0)))
        return false;
    host_set_time();
    return true;
}

static inline void lua_event_end(void)
{
    native_leave();
}

#endif
