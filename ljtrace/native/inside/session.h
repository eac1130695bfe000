/* session.h - how the launcher passes the ring to the library: an environment variable.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_SESSION_H
#define LJTRACE_NATIVE_INSIDE_SESSION_H

/* LJTRACE_NATIVE=RING: the descriptor of the ring's memory, which has the options. The launcher has put the library first
 * in LD_PRELOAD. The library removes the variable and itself from LD_PRELOAD, so that the program does not see them. */
#define NATIVE_VARIABLE "LJTRACE_NATIVE"

#endif
