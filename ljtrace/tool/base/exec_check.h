/* exec_check.h - what the kernel says of a file that is to be executed. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_BASE_EXEC_CHECK_H
#define LJTRACE_TOOL_BASE_EXEC_CHECK_H

#include "pub_tool_basics.h"

/* Why Valgrind cannot run a program that the kernel runs, and the file that this is said of: the program or
 * the interpreter of its script. reason is NULL if there is nothing. */
struct lt_hindrance {
    const HChar *reason;
    HChar path[4096];
    Bool unreadable; /* it may be executed, but not read: Valgrind lets the exec fail */
};

/* The errno by which the kernel refuses to execute a file; 0 if it does not, or says what Valgrind says as
 * well. Nothing but regular files is opened. */
UInt lt_runnable(const HChar *path, struct lt_hindrance *h);

/* The same of the size of arguments and environment, which are vectors in the program's memory. */
UInt lt_runnable_with(Addr path, Addr arguments, Addr environment);

#endif
