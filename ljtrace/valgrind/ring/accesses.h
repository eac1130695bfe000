/* accesses.h - are accesses recorded now? (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_RING_ACCESSES_H
#define LJTRACE_VALGRIND_RING_ACCESSES_H

#include "pub_tool_basics.h"

/* Are accesses recorded? Not with --trace-mem=no, nor after the file has reached --max-size. */
Bool lt_accesses_recorded(void);
/* Call before code of the program runs. Has the file become full, or is it now another one that is not full
 * (a forked child's)? Then all code is translated again, without or with the recording of accesses. */
void lt_accesses_follow_ring(void);

#endif
