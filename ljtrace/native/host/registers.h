/* registers.h - the registers of the event that is being recorded, where the code shared with the tool expects them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_HOST_REGISTERS_H
#define LJTRACE_NATIVE_HOST_REGISTERS_H

#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"

/* The registers of the current event; only those that an ABI preserves are valid, RIP, and the arguments of a watched
 * function. */
extern VexGuestAMD64State host_registers;
/* RIP is the first instruction of a function, so its return address is at RSP. Else RIP is a call. */
extern Bool host_at_entry;

#endif
