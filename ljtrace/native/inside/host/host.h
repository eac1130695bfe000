/* host.h - what the native recorder sets for the reader of LuaJIT: the event, and when something begins or ends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_HOST_HOST_H
#define LJTRACE_NATIVE_INSIDE_HOST_HOST_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/ring.h"
#include <stdbool.h>

/* The registers of the current event (enum host_register). Only those that an ABI preserves are valid, and the arguments
 * of a watched function. */
extern uint64_t event_registers[HOST_REGISTERS];
/* The program counter: a call or, if at_entry, the first instruction of a function, so that its return address is at
 * RSP. */
extern uint64_t event_ip;
extern bool event_at_entry;

/* The number of the running thread, host_thread(); 0 = it has none yet. */
extern __attribute__((visibility("hidden"), tls_model("initial-exec"))) __thread uint32_t host_thread_number;

/* -- C stacks -- */

/* Objects were unmapped: code addresses may mean something else from now on. */
void host_forget_frames(void);

/* -- memory -- */

/* Have a reserve for the moment when the kernel refuses memory. Returns false if it does so already: then that code must
 * not be called. Any thread may call this, one at a time. */
bool host_memory_reserve(void);

/* -- records and heap events -- */

/* Take the time of an event, for all its records. Only while the ring is locked. */
void host_set_time(void);
/* Another recording begins: no heap has a slot in it. */
void host_records_restart(void);
/* The stack of an event in the ring. */
struct raw_stack host_stack(const struct lt_stack *stack);

#endif
