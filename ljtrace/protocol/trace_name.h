/* trace_name.h - the names of native traces, from --out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The Valgrind tool expands its names itself (ljtrace/valgrind/session/trace_name.c), by Valgrind's rules.
 */
#ifndef LJTRACE_PROTOCOL_TRACE_NAME_H
#define LJTRACE_PROTOCOL_TRACE_NAME_H

/* Replace %p by the process id and %q{VAR} by the value of an environment variable. The caller frees the name. NULL = it
 * is empty or too long. */
char *trace_name_expand(const char *pattern, int pid);

#endif
