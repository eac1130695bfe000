/* self_modifying.h - code that can not change unseen needs no check that it did. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_BASE_SELF_MODIFYING_H
#define LJTRACE_TOOL_BASE_SELF_MODIFYING_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* After the command line: whether Valgrind's checks may be left out at all. */
void lt_smc_init(void);

/* Can the code in these ranges only change by ways that discard its translation? */
Bool lt_smc_is_sealed(const VexGuestExtents *extents);

/* Is what is in this range changed by its own process alone, under the protection that it has? */
Bool lt_smc_trusts(Addr from, Addr to);

/* Is this statement, ahead of the first instruction, a part of Valgrind's check of the code? */
Bool lt_smc_is_check(const IRStmt *st);

/* Discard all translations, in a system call; nothing without LT_CAN_DISCARD. */
void lt_smc_translate_again(void);

/* Every system call of the program; `result` is negative for an error. */
void lt_smc_before(UInt number, const UWord *args);
void lt_smc_after(UInt number, const UWord *args, Long result);

#endif
