/* allocator_calls.h - observe the calls of Lua allocator functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What an entry and a return mean is in ljtrace/luajit/heap/allocator.h. Here are the addresses of the functions, and
 * what the calls do to the accesses in the ring.
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_ALLOCATOR_CALLS_H
#define LJTRACE_VALGRIND_LUAJIT_ALLOCATOR_CALLS_H

#include "ljtrace/protocol/lua_layout.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"

/* Watch the function at `f`. If it is LuaJIT's own, the VM state is watched too, in the code of the same
 * object. */
void lt_lua_watch(Addr f, enum lua_allocator whose, UInt image);
/* The code in this range is gone, with the functions in it. */
void lt_lua_unwatch(Addr from, Addr to);

/* Does a watched function begin at this address? For the instrumenter. */
Bool lt_lua_is_entry(Addr ip);
/* May a return at this address end a watched call? For the instrumenter. */
Bool lt_lua_may_return(Addr ip);
/* Called from generated code at the entry of a watched function, with the registers of the running thread,
 * which contain the arguments. */
void lt_lua_entered(const VexGuestAMD64State *regs);
/* Called at a return that ends such a call; the registers contain the result. */
void lt_lua_returned(const VexGuestAMD64State *regs);
/* A thread is about to run. */
void lt_lua_thread(ThreadId tid);

#endif
