/* exec_check.h - predict what the kernel says of a file that is to be executed. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_BASE_EXEC_CHECK_H
#define LJTRACE_VALGRIND_BASE_EXEC_CHECK_H

#include "pub_tool_basics.h"

/* Why Valgrind cannot run a program that the kernel can run; reason is NULL if it can. path: the program or,
 * for a script, its interpreter. */
struct lt_exec_obstacle {
    const HChar *reason;
    HChar path[4096];
    Bool unreadable; /* executable but not readable: Valgrind lets the exec fail */
};

/* The errno with which the kernel refuses to execute a file; 0 if it does not, or if Valgrind returns the
 * same error. Only regular files are opened. */
UInt lt_exec_check(const HChar *path, struct lt_exec_obstacle *h);

/* The same for the size of the arguments and of the environment, which are vectors in the program's
 * memory. */
UInt lt_exec_check_arguments(Addr path, Addr arguments, Addr environment);

#endif
