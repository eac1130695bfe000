/* session.h - how the launchers reach the library: by an environment variable, or by calling it in a running program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_SESSION_H
#define LJTRACE_NATIVE_INSIDE_SESSION_H

/* LJTRACE_NATIVE=RING: the descriptor of the ring's memory, which has the options. The launcher has put the library first
 * in LD_PRELOAD. The library removes the variable and itself from LD_PRELOAD, so that the program does not see them. */
#define NATIVE_VARIABLE "LJTRACE_NATIVE"

/* The functions that `ljtrace attach` and `ljtrace detach` call. */
#define ATTACHED_BEGIN "ljtrace_native_attach"
#define ATTACHED_END "ljtrace_native_detach"
#define ATTACHED_REAP "ljtrace_native_reap" /* take note of copies that have ended (copy.h) */

#define COPY_NAME "ljtrace-copy" /* of a process that is a copy of the program (copy.h), as ps shows it */

/* What they return. */
enum {
    ATTACHED_DONE,
    ATTACHED_BUSY,          /* the process is recorded already */
    ATTACHED_NOT,           /* it is not recorded */
    ATTACHED_NO_RING,       /* the launcher cannot be reached */
    ATTACHED_NO_DESCRIPTOR, /* it has too few descriptors left to get the ring's memory */
    ATTACHED_NO_MAPS,       /* the process cannot find out which memory it can write */
    ATTACHED_FAILED,        /* the recording cannot begin */
    ATTACHED_COPIED         /* the recording has ended, and a copy of the process still runs */
};

int ljtrace_native_attach(const char *text);
int ljtrace_native_detach(const char *text);
int ljtrace_native_reap(const char *text);

#endif
