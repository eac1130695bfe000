/* system_files.h - is a file that the program has mapped one of the system? (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * For files that are not, the program waits until the collector has opened them (protocol/system_files.h). The collector
 * sees the file system as it was when the program started. If the program has changed its root or its mounts since then,
 * it may mean other files by the same paths, so from then on it waits for all.
 */
#ifndef LJTRACE_VALGRIND_BASE_SYSTEM_FILES_H
#define LJTRACE_VALGRIND_BASE_SYSTEM_FILES_H

#include "pub_tool_basics.h"

/* Is this a file of the system, which the collector finds by the same path as the program? */
Bool lt_system_has(const HChar *path);
/* Call before each system call. */
void lt_system_before(UInt number);

#endif
