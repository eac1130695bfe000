/* child_name.h - the names of the native traces of forked children.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_COLLECTOR_CHILD_NAME_H
#define LJTRACE_COLLECTOR_CHILD_NAME_H

/* The name for a forked child of the process whose trace is `parents`: the id is inserted unless the pattern of --out has
 * it. NULL = the child has no trace: the parent's is a stream, not a file. The caller frees it. */
char *trace_name_of_child(const char *pattern, const char *parents, int pid);

#endif
