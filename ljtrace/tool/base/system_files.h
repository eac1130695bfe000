/* system_files.h - the path by which the collector finds a file that the program has mapped. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector looks up source lines in the objects' files (symbols/debuginfo.h). Files of the system do
 * not change while programs run, so they are opened by their paths when the first line is needed. Other files
 * may be removed or rebuilt at any time, so the collector opens them when they are mapped (RAW_LOADED). The
 * collector sees the file system as it was when the program started. If the program has changed its root or
 * its mounts since then, it may mean other files by the same paths; from then on all files are opened through
 * /proc/PID/root.
 */
#ifndef LJTRACE_TOOL_BASE_SYSTEM_FILES_H
#define LJTRACE_TOOL_BASE_SYSTEM_FILES_H

#include "pub_tool_basics.h"

/* Is this a file of the system, which the collector finds by the same path as the program? */
Bool lt_system_has(const HChar *path);
/* Write the path by which the collector can open, now, the file that the program calls `path`. */
void lt_system_path(HChar *to, SizeT room, const HChar *path);
/* Call before each system call. */
void lt_system_before(UInt number);

#endif
