/* existing.h - the blocks that malloc had given before the recorder was attached (--existing-blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_EXISTING_H
#define LJTRACE_NATIVE_INSIDE_EXISTING_H

/* The recording has begun, and the program's calls are redirected: have a copy of the process report its blocks. */
void existing_report(void);

#endif
