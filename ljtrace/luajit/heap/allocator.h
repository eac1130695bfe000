/* allocator.h - LuaJIT's heaps: observe the calls of an allocator function. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A Lua state gets all its memory by one function, f(ud, ptr, osize, nsize). The preload finds its address.
 * Its calls are observed here, at entry and at return, without changing the program: lua_getallocf still
 * returns that function, and lua_close still unmaps the arena. Blocks from before any hook could be set
 * (GG_State, the first strings) are recorded like all others.
 */
#ifndef LJTRACE_LUAJIT_HEAP_ALLOCATOR_H
#define LJTRACE_LUAJIT_HEAP_ALLOCATOR_H

#include "ljtrace/protocol/lua_layout.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"

/* Watch the function at `f`. If it is LuaJIT's own, the VM state is watched too, in the code of the same
 * object. */
void lt_lua_watch(Addr f, enum lua_allocator whose, UInt image);
/* The code in this range is gone, with the functions in it. */
void lt_lua_unwatch(Addr from, Addr to);
/* The state with the global state g (0 = not known) was closed. heap_too: all blocks of its heap are gone. */
void lt_lua_state_closed(Addr ud, Addr g, Bool heap_too);
/* A state's allocator gets another pointer from here on, but it is the same heap. If a known state has one of these
 * pointers, nothing changes: the heaps of known states have numbers of their own. */
void lt_lua_heap_moved(Addr from, Addr to);
/* A heap's number in the ring: the pointer that its allocator function gets. A few small numbers mean other
 * heaps, so small pointers like NULL are changed. */
static inline Addr lt_lua_heap(Addr ud)
{
    return ud < 8 ? ud + 8 : ud;
}

/* Does a watched function begin at this address? For the instrumenter. */
Bool lt_lua_is_entry(Addr ip);
/* May a return at this address end a watched call? For the instrumenter. */
Bool lt_lua_may_return(Addr ip);
/* Called from generated code at the entry of a watched function, with the registers of the running thread,
 * which contain the arguments. */
void lt_lua_enter(const VexGuestAMD64State *regs);
/* Called at a return that ends such a call; the registers contain the result. */
void lt_lua_return(const VexGuestAMD64State *regs);

/* Is this thread inside a watched function? */
Bool lt_lua_inside(ThreadId tid);
/* A thread is about to run. */
void lt_lua_thread(ThreadId tid);

#endif
