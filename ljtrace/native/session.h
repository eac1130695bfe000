/* session.h - how the launcher passes options to the library: an environment variable.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_SESSION_H
#define LJTRACE_NATIVE_SESSION_H

/* LJTRACE_NATIVE=RING:DEPTH:FORKS:MEAN:SEED:STACKS:API:PREFIXES:PRELOAD. RING is the descriptor of the ring's memory. DEPTH is the
 * most frames of a stack. FORKS is 1 if forked children are recorded, too. MEAN is the mean number of bytes between
 * samples, 0 = all is recorded. SEED is that of the sample, 0 = any. STACKS is the CPU time between samples of the stacks
 * in nanoseconds, 0 = none. API is 1 if Lua states get a global misc. PREFIXES are those of names of allocation functions,
 * with a comma after each. PRELOAD is the value that LD_PRELOAD had before,
 * after a sign:
 * `=`, or `-` if it was not set. The library removes the variable and restores LD_PRELOAD, so that the program does not
 * see them. */
#define NATIVE_VARIABLE "LJTRACE_NATIVE"

#endif
