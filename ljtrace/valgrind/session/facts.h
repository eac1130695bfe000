/* facts.h - write facts about the recording, pairs of a key and a value. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_SESSION_FACTS_H
#define LJTRACE_VALGRIND_SESSION_FACTS_H

#include "pub_tool_basics.h"

/* Write all facts that are known at the start. */
void lt_put_facts(void);

#endif
