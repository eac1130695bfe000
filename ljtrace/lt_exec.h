/* lt_exec.h - programs that Valgrind cannot run. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LT_EXEC_H
#define LT_EXEC_H

#include "pub_tool_basics.h"

/* Around each system call: with --trace-children=yes, a program that Valgrind would refuse runs unrecorded.
 */
void lt_exec_before(UInt number, const UWord *args);
void lt_exec_after(UInt number);

#endif
