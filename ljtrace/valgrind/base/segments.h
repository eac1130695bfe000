/* segments.h - which memory of the program is readable. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind knows all mappings (segments.c). The native recorder has another implementation, which asks the kernel
 * (ljtrace/native/host/segments.c).
 */
#ifndef LJTRACE_VALGRIND_BASE_SEGMENTS_H
#define LJTRACE_VALGRIND_BASE_SEGMENTS_H

#include "pub_tool_basics.h"

/* Is the range readable? If it is, [*from, *to) is a readable range around `a`; it is empty if none is known. */
Bool lt_segment_readable(Addr a, SizeT n, Addr *from, Addr *to);
/* Is each change of the mappings known, so that a result holds until lt_guest_forget is called? */
extern const Bool lt_segments_are_exact;

#endif
