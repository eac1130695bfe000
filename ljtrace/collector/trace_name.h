/* trace_name.h - the names of native traces, from --out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The Valgrind tool expands its names itself (ljtrace/tool/session/trace_name.c), by Valgrind's rules.
 */
#ifndef LJTRACE_COLLECTOR_TRACE_NAME_H
#define LJTRACE_COLLECTOR_TRACE_NAME_H

/* Replace %p by the process id and %q{VAR} by the value of an environment variable. The caller frees the name. NULL = it
 * is empty or too long. */
char *trace_name_expand(const char *pattern, int pid);
/* The name for a forked child of the process whose trace is `parents`: the id is inserted unless the pattern has it. NULL
 * = the child has no trace: the parent's is a stream, not a file. The caller frees it. */
char *trace_name_of_child(const char *pattern, const char *parents, int pid);

#endif
