/* toggle.h - --toggle-fn: record accesses only while a thread is inside certain functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Functions are recognised by name, so they need a symbol. A call lasts until its frame is gone from the
 * stack, by a return or by a long jump. Heap events are recorded everywhere.
 */
#ifndef LJTRACE_VALGRIND_INSTRUMENT_TOGGLE_H
#define LJTRACE_VALGRIND_INSTRUMENT_TOGGLE_H

#include "pub_tool_basics.h"

/* Register the option. */
void lt_toggle_init(void);

/* Are there patterns? */
Bool lt_toggle_wanted(void);
/* Does a function begin at this address whose name matches? Both are for the instrumenter. */
Bool lt_toggle_is_entry(Addr ip);
/* Called from generated code at the entry of such a function. */
void lt_toggle_enter(Addr sp);
/* Called from generated code at each return at or above lt_toggle_sp. */
void lt_toggle_return(Addr sp);
/* The running thread's call ends when a return leaves the stack pointer here or higher; all ones = there is
 * no call. */
extern Addr lt_toggle_sp;

/* A thread is about to run. */
void lt_toggle_thread(ThreadId tid);
/* A thread has ended. */
void lt_toggle_thread_ends(ThreadId tid);
/* At the end of the program: warn if no function has matched. */
void lt_toggle_finish(void);

#endif
