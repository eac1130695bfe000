/* observe.h - allocation functions that are watched, not replaced. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A fully static program has no preload, and families with a prefix of their own are not known by name. Their functions
 * are found by symbol: the arguments are noted at entry, the result at return, and the program's own allocator does the
 * work. --alloc-prefix and --observe-alloc name them; of a static program those of ljtrace/protocol/alloc_functions.def are taken.
 */
#ifndef LJTRACE_TOOL_HEAPS_OBSERVE_H
#define LJTRACE_TOOL_HEAPS_OBSERVE_H

#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"

/* From the command line; False if the text is empty or there are too many. */
Bool lt_observe_prefix(const HChar *prefix);
Bool lt_observe_pattern(const HChar *pattern);
/* Once the program is known. */
void lt_observe_start(void);
/* At the end: name the wishes of the command line that no function was found for. */
void lt_observe_finish(void);
/* Is the program one without a dynamic linker, so that nothing can be preloaded? */
Bool lt_observe_is_static(void);
/* Has a symbol of a function been found in any object? Asked of static programs; others are not looked through. */
Bool lt_observe_any_symbols(void);

/* For the instrumenter: may there be such functions; does one begin here? */
Bool lt_observe_wanted(void);
Bool lt_observe_is_entry(Addr ip);
/* Called from generated code: at such an entry, and at each return that leaves the stack pointer at lt_observe_sp or
 * above it. */
void lt_observe_enter(const VexGuestAMD64State *regs);
void lt_observe_return(const VexGuestAMD64State *regs);
/* The stack pointer that ends the running thread's call; all ones = there is none. */
extern Addr lt_observe_sp;

/* Is the thread inside such a function? What it takes from other heaps there is raw material. */
Bool lt_observe_inside(ThreadId tid);
/* A thread begins to run, or has ended. */
void lt_observe_thread(ThreadId tid);
void lt_observe_thread_ends(ThreadId tid);
/* Objects have come, or gone. */
void lt_observe_mapped(void);
void lt_observe_unmapped(Addr from, SizeT size);

#endif
