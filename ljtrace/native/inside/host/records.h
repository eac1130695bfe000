/* records.h - the time and the stack of an event of the reader of LuaJIT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_RECORDS_H
#define LJTRACE_NATIVE_HOST_RECORDS_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/protocol/ring.h"

/* Take the time of an event, for all its records. Only while the ring is locked. */
void host_set_time(void);
/* Another recording begins: no heap has a slot in it. */
void host_records_restart(void);
/* The stack of an event in the ring. */
struct raw_stack host_stack(const struct lt_stack *stack);

#endif
