/* lua_find.h - find the Lua states that a program has, in its memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A state begins with its main thread, which the global state follows. LuaJIT's own allocator puts it at the beginning of
 * a piece of memory that the kernel has mapped, so always at the same place in a page. States of a program's own
 * allocator may be anywhere and are not found.
 */
#ifndef LJTRACE_NATIVE_INSIDE_LUA_FIND_H
#define LJTRACE_NATIVE_INSIDE_LUA_FIND_H

#include <stdint.h>

enum { LUA_FIND_PAGE = 4096 };

/* How a state looks: its place in a page, offsets in its main thread, the bytes of a reference, the size of a thread. */
struct lua_find_shape {
    uint64_t place;
    uint32_t gct, global, ref, thread_size;
};

/* Call `found` with each address that looks like the main thread of a state, and with `any`. One thread at a time. */
void lua_find(const struct lua_find_shape *shape, void (*found)(void *L, void *any), void *any);

#endif
