/* dead_puts.h - leaves out writes of the program's registers that nothing can see. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * To keep loads whose value is not used (ljtrace/tool/base/vex_settings.c), all registers have to be in their places at each memory
 * access; the translator then keeps every write of a register, four for each instruction that sets flags.
 * Once the accesses are recorded, this is more than anybody asks for: as with other tools, what unwinds the
 * stack is enough (program counter, stack pointer, frame pointer), and of the rest what can leave the
 * superblock or is read by a call. Both the writes and what was computed for them go.
 *
 * A program that handles SIGSEGV or SIGBUS may look at the registers of the access that failed, or repeat it:
 * all are kept from the moment on at which it says that it does. They are kept, too, if the user asks for a
 * certain precision, or for a debugger's.
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_DEAD_PUTS_H
#define LJTRACE_TOOL_INSTRUMENT_DEAD_PUTS_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* When the options are known. */
void lt_puts_init(void);
/* Ahead of a system call. */
void lt_puts_before(UInt number, const UWord *args);
/* A superblock is whole, with all that is to be recorded: take out the writes that nobody sees. */
void lt_puts_leave_out(IRSB *sb);

#endif
