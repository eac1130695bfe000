/* self_modifying.h - omit Valgrind's checks for modified code where code cannot be modified unnoticed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_BASE_SELF_MODIFYING_H
#define LJTRACE_VALGRIND_BASE_SELF_MODIFYING_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* Call after the command line was read. Decides whether any checks may be omitted. */
void lt_smc_init(void);

/* Can the code in these ranges only change in ways that discard its translation? */
Bool lt_smc_is_sealed(const VexGuestExtents *extents);

/* Is this range only changed by its own process, and as its protection allows? */
Bool lt_smc_trusts(Addr from, Addr to);

/* Is this statement, which precedes the first instruction, a part of Valgrind's check? */
Bool lt_smc_is_check(const IRStmt *st);

/* Discard all translations. Call it in a system call. Does nothing without LT_CAN_DISCARD. */
void lt_smc_translate_again(void);

/* Call before each system call of the program. */
void lt_smc_before(UInt number, const UWord *args);
/* Call after it. result: the kernel's, that is, negative if it is an errno. */
void lt_smc_after(UInt number, const UWord *args, Long result);

#endif
