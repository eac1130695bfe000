/* facts.h - facts about the recording, by key. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_SESSION_FACTS_H
#define LJTRACE_TOOL_SESSION_FACTS_H

#include "pub_tool_basics.h"

void lt_put_info(const HChar *key, const HChar *value);
void lt_put_number(const HChar *key, ULong n);
/* All that is known at the start. */
void lt_put_facts(void);

#endif
