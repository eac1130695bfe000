/* hiding.h - the thread whose allocations are not recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_BASE_HIDING_H
#define LJTRACE_LUAJIT_BASE_HIDING_H

#include <stdbool.h>
#include <stdint.h>

/* Begin or end hiding: what this thread allocates meanwhile is the recorder's own (a scratch state), and is
 * not recorded. */
void lt_hide(uint32_t tid, bool hide);
bool lt_is_hiding(uint32_t tid);

#endif
