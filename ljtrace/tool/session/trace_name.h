/* trace_name.h - what a process's trace is called. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * From --out: a file name with %p, %n and %q{VAR}; "-", the standard output; "|COMMAND". Two images of a
 * process (exec) and two processes that live at the same time never get one file: a process that finds no
 * %p in the name, and its file another's, puts its id behind it.
 */
#ifndef LJTRACE_TOOL_SESSION_TRACE_NAME_H
#define LJTRACE_TOOL_SESSION_TRACE_NAME_H

#include "pub_tool_basics.h"

/* The name to try first; NULL, and the user is told, if it is a command or a descriptor that belongs to the
 * program that started this one. */
const HChar *lt_name_first(void);
/* The next, if that is an earlier image's file or, busy, one that another process is writing; NULL if there
 * is no other (standard output, commands). */
const HChar *lt_name_next(Bool busy);
/* In a forked child: its name; NULL if it can not have one of its own. */
const HChar *lt_name_child(void);

#endif
