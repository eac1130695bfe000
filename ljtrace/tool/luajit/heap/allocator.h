/* allocator.h - LuaJIT's heaps: watching an allocator function by its address. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A Lua state takes all its memory through one function, f(ud, ptr, osize, nsize). The preload finds the
 * function's address; here its calls are observed from outside, on entry and on return, without the program
 * being changed: lua_getallocf tells the truth, lua_close frees the arena as ever, and the blocks made before
 * any hook could be set (GG_State, the first strings) are seen like all others.
 */
#ifndef LJTRACE_TOOL_LUAJIT_HEAP_ALLOCATOR_H
#define LJTRACE_TOOL_LUAJIT_HEAP_ALLOCATOR_H

#include "ljtrace/protocol/lua_layout.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"

/* Watch the function at `f`. The object that holds LuaJIT's own is watched for what its machine does, too. */
void lt_lua_watch(Addr f, enum lua_allocator whose, UInt image);
/* The functions with code there are gone. */
void lt_lua_unwatch(Addr from, Addr to);
/* The state with the global state g (0 = not known) is gone; with `heap_too`, all blocks of its heap are. */
void lt_lua_state_closed(Addr ud, Addr g, Bool heap_too);
/* A state's allocator is told another pointer from here on: it is the same heap. If the other pointer is that
 * of other states already, they stay apart. */
void lt_lua_heap_moved(Addr from, Addr to);
/* A heap's number in the ring: the pointer that its allocator function is told, but for a few small ones, as
 * NULL, which are other heaps' numbers. */
static inline Addr lt_lua_heap(Addr ud)
{
    return ud < 8 ? ud + 8 : ud;
}

/* For the instrumenter: does a watched function begin here; may a return here end one? */
Bool lt_lua_is_entry(Addr ip);
Bool lt_lua_may_return(Addr ip);
/* Called from generated code with the registers of the thread that runs: the function's arguments are in them
 * as it begins, its result as it returns. */
void lt_lua_enter(const VexGuestAMD64State *regs);
void lt_lua_return(const VexGuestAMD64State *regs);

/* Is this thread inside a watched function? */
Bool lt_lua_inside(ThreadId tid);
/* A thread begins to run. */
void lt_lua_thread(ThreadId tid);

#endif
