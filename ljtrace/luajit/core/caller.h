/* caller.h - find which of several Lua states with one heap calls the allocator. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_CORE_CALLER_H
#define LJTRACE_LUAJIT_CORE_CALLER_H

#include "ljtrace/luajit/core/states.h"

/* Thread tid has called an allocator function for the heap `ud`, with the return address at sp. For which
 * state? NULL = no state is known, or it is not clear which. */
struct lt_vm *lt_vm_caller(ThreadId tid, Addr ud, Addr sp);
/* The same, from the registers only. So it can return NULL even if only one state is known: the call need not
 * be for that state. */
struct lt_vm *lt_vm_caller_in_registers(ThreadId tid, Addr ud, Addr sp);
/* The state whose VM was entered last on the thread's stack; NULL if none is running there. */
struct lt_vm *lt_vm_running(ThreadId tid);

#endif
