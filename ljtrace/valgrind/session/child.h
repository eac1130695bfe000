/* child.h - give each forked child a recording of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_SESSION_CHILD_H
#define LJTRACE_VALGRIND_SESSION_CHILD_H

#include "pub_tool_basics.h"

/* Call when the ring is open. name: the file of this process's trace. */
void lt_child_init(const HChar *name);
/* The file of this process's trace. */
const HChar *lt_child_name(void);
/* How many children with a recording of their own this process has forked. */
UInt lt_child_children(void);

#endif
