/* end.h - the end of the recording, and how the program ended. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_SESSION_END_H
#define LJTRACE_TOOL_SESSION_END_H

/* To be called when the program has ended: `finish` ends the recording as soon as it is known how. */
void lt_end_when_known(void (*finish)(void));

#endif
