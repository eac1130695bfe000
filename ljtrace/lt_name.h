/* lt_name.h - what a process's trace is called. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * From --out: a file name with %p, %n and %q{VAR}; "-", the standard output; "|COMMAND". Two images of a
 * process (exec) and two processes (fork) never get one file.
 */
#ifndef LT_NAME_H
#define LT_NAME_H

#include "pub_tool_basics.h"

/* The name for this image; `attempt` counts from 0, as long as files of earlier images are found. NULL if
 * there is no other (standard output, commands). */
const HChar *lt_name_image(UInt attempt);
/* In a forked child: its name, when the parent's is this; NULL if it can not have one of its own. */
const HChar *lt_name_child(const HChar *parent);

#endif
