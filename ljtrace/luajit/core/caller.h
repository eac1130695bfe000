/* caller.h - find which of several Lua states with one heap calls the allocator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_CORE_CALLER_H
#define LJTRACE_LUAJIT_CORE_CALLER_H

#include "ljtrace/luajit/core/states.h"
#include <stdint.h>

/* Thread tid has called an allocator function for the heap `ud`, with the return address at sp. For which
 * state? NULL = no state is known, or it is not clear which. */
struct lt_vm *lt_vm_caller(uint32_t tid, uint64_t ud, uint64_t sp);
/* The same, from the registers only. So it can return NULL even if only one state is known: the call need not
 * be for that state. */
struct lt_vm *lt_vm_caller_in_registers(uint32_t tid, uint64_t ud, uint64_t sp);
/* The state whose VM was entered last on the thread's stack; NULL if none is running there. */
struct lt_vm *lt_vm_running(uint32_t tid);

#endif
