/* registers.h - the registers of the event that is being recorded, for the reader of LuaJIT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_REGISTERS_H
#define LJTRACE_NATIVE_HOST_REGISTERS_H

#include "ljtrace/luajit/host.h"

/* The registers of the current event (enum host_register). Only those that an ABI preserves are valid, and the arguments
 * of a watched function. */
extern uint64_t event_registers[HOST_REGISTERS];
/* The program counter: a call or, if at_entry, the first instruction of a function, so that its return address is at
 * RSP. */
extern uint64_t event_ip;
extern bool event_at_entry;

#endif
