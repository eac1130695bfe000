/* toggle.h - --toggle-fn: accesses are recorded while a thread is inside certain functions. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Functions are known by name, so they need a symbol; a call lasts until its frame is gone from the stack, by
 * a return or a long jump. Heap events are recorded everywhere.
 */
#ifndef LJTRACE_TOOL_INSTRUMENT_TOGGLE_H
#define LJTRACE_TOOL_INSTRUMENT_TOGGLE_H

#include "pub_tool_basics.h"

/* A pattern from the command line, with * and ?; False if it is empty or there are too many. */
Bool lt_toggle_add(const HChar *pattern);

/* For the instrumenter: are there patterns; does a function that matches begin here? */
Bool lt_toggle_wanted(void);
Bool lt_toggle_is_entry(Addr ip);
/* Called from generated code: at such an entry, and at each return above lt_toggle_sp. */
void lt_toggle_enter(Addr sp);
void lt_toggle_return(Addr sp);
/* The stack pointer that ends the running thread's call when a return leaves it or a higher one;
 * all ones = there is none. */
extern Addr lt_toggle_sp;

/* A thread begins to run. */
void lt_toggle_thread(ThreadId tid);
void lt_toggle_thread_ends(ThreadId tid);
/* At the end: say so if no function matched. */
void lt_toggle_finish(void);

#endif
