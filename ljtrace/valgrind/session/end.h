/* end.h - end the recording, and say how the program ended. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_SESSION_END_H
#define LJTRACE_VALGRIND_SESSION_END_H

/* Call when the program has ended: `finish`, which ends the recording, is called as soon as it is known how
 * the program ended, and the ring's header says it. */
void lt_end_when_known(void (*finish)(void));

#endif
