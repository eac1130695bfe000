/* trace_name.h - the name of a process's trace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * It is derived from --out: a file name with %p, %n and %q{VAR}; "-" for the standard output; or "|COMMAND".
 * Two images of a process (before and after exec), and two processes that run at the same time, never write
 * the same file. If the name has no %p, and its file belongs to another process, the process id is added to
 * it.
 */
#ifndef LJTRACE_VALGRIND_SESSION_TRACE_NAME_H
#define LJTRACE_VALGRIND_SESSION_TRACE_NAME_H

#include "pub_tool_basics.h"

/* The first name to try. Returns NULL, after a message to the user, if the output is a command or a
 * descriptor that already belongs to the program that started this one. */
const HChar *lt_name_first(void);
/* The next name to try. The last one was that of an earlier image or, with `busy`, of a file that another
 * process is writing. NULL if there is no other name (standard output, commands). */
const HChar *lt_name_next(Bool busy);
/* The name for a forked child, called in the child; NULL if it cannot have a trace of its own. */
const HChar *lt_name_child(void);

#endif
