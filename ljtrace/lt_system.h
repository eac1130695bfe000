/* lt_system.h - the system's files, of which the collector finds the source lines.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What comes with the system stays what it is while programs run, so its lines can be looked up later, by
 * path, when they are needed (collector/debuginfo.h). The collector sees the file system as it was when the
 * program started. A program that has gone to another root since, or to other mounts, may mean other files by
 * the same paths: from then on no lines are looked up there, and Valgrind reads those of all that it maps.
 */
#ifndef LT_SYSTEM_H
#define LT_SYSTEM_H

#include "pub_tool_basics.h"

/* Does a path lead the collector to the file of the system that the program sees there? */
Bool lt_system_has(const HChar *path);
/* Ahead of a system call. */
void lt_system_before(UInt number);

#endif
