/* caller.h - which of several Lua states with one heap asks its allocator. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_LUAJIT_CORE_CALLER_H
#define LJTRACE_TOOL_LUAJIT_CORE_CALLER_H

#include "ljtrace/tool/luajit/core/states.h"

/* Thread tid has called an allocator function, with the return address at sp, for the heap `ud`: for which
 * state? NULL = none is known, or it is not clear. */
struct lt_vm *lt_vm_asking(ThreadId tid, Addr ud, Addr sp);
/* The same, by what its registers say alone: even if only one state is known, the call may be for none. */
struct lt_vm *lt_vm_seen_asking(ThreadId tid, Addr ud, Addr sp);
/* The state whose machine was entered last on the thread's stack; NULL if none is running there. */
struct lt_vm *lt_vm_running(ThreadId tid);

#endif
