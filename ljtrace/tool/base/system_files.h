/* system_files.h - by which path the collector finds the files that the program has mapped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector looks up source lines in the objects' files (collector/debuginfo.h). What comes with the system
 * stays what it is while programs run, so it is opened by its path when the first line is needed. Other files may
 * be removed or built again at any time: the collector opens them when they are mapped (RAW_LOADED). It sees the
 * file system as it was when the program started. A program that has gone to another root since, or to other
 * mounts, may mean other files by the same paths: from then on all files are opened through /proc/PID/root.
 */
#ifndef LJTRACE_TOOL_BASE_SYSTEM_FILES_H
#define LJTRACE_TOOL_BASE_SYSTEM_FILES_H

#include "pub_tool_basics.h"

/* Does a path lead the collector to the file of the system that the program sees there? */
Bool lt_system_has(const HChar *path);
/* The path by which the collector finds, now, the file that the program knows by `path`. */
void lt_system_path(HChar *to, SizeT room, const HChar *path);
/* Ahead of a system call. */
void lt_system_before(UInt number);

#endif
