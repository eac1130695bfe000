/* info.h - pairs of key and value in the trace. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_RING_INFO_H
#define LJTRACE_VALGRIND_RING_INFO_H

#include "pub_tool_basics.h"

/* Write a fact. */
void lt_put_info(const HChar *key, const HChar *value);
/* Write a fact whose value is a number. */
void lt_put_number(const HChar *key, ULong n);

#endif
