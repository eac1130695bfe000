/* dead_puts.h - remove writes to the program's registers that nothing can observe.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * To keep loads whose value is not used (ljtrace/valgrind/base/core.c), all registers have to be up to
 * date at each memory access. For this the translator keeps every write to a register, four of them for each
 * instruction that sets flags. Once the accesses are recorded, less is needed, as with other tools: at an
 * access, the registers that unwinding needs (program counter, stack pointer, frame pointer); at an exit and
 * at a call, all of them. So the other writes are removed, together with the computation of their values.
 *
 * A program that handles SIGSEGV or SIGBUS may look at the registers of the access that failed, or repeat it.
 * From the moment when it installs such a handler, all writes are kept. They are also kept if the user
 * requests a precision of registers, or a debugger's.
 */
#ifndef LJTRACE_VALGRIND_INSTRUMENT_DEAD_PUTS_H
#define LJTRACE_VALGRIND_INSTRUMENT_DEAD_PUTS_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* Call when the options are known. */
void lt_dead_puts_init(void);
/* Call before each system call: it may install a handler. */
void lt_dead_puts_before(UInt number, const UWord *args);
/* Remove the dead writes of a superblock. All code that records it must have been added before. */
void lt_dead_puts_remove(IRSB *sb);

#endif
