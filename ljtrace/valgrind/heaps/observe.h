/* observe.h - record allocation functions without replacing them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A statically linked program has no preload, and functions with a prefix of their own are not known by name.
 * Such functions are found by their symbols: the arguments are read at entry, the result at return, and the
 * program's own allocator does the work. --alloc-prefix and --observe-alloc name them. In a static program,
 * the functions of ljtrace/protocol/alloc_functions.def are also observed.
 */
#ifndef LJTRACE_VALGRIND_HEAPS_OBSERVE_H
#define LJTRACE_VALGRIND_HEAPS_OBSERVE_H

#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"

/* Register the options. */
void lt_observe_init(void);
/* Call when the program is known. */
void lt_observe_start(void);
/* At the end: warn of prefixes and patterns for which no function was found. */
void lt_observe_finish(void);
/* Write the names from the command line as facts. */
void lt_observe_put_facts(void);
/* Has the program no dynamic linker, so that nothing can be preloaded? */
Bool lt_observe_is_static(void);
/* Was the symbol of any function found in any object? Only known of static programs; objects of others are
 * not searched. */
Bool lt_observe_any_symbols(void);

/* Can there be such functions? For the instrumenter. */
Bool lt_observe_wanted(void);
/* Does one begin at this address? For the instrumenter. */
Bool lt_observe_is_entry(Addr ip);
/* Called from generated code at such an entry. */
void lt_observe_enter(const VexGuestAMD64State *regs);
/* Called from generated code at each return that leaves the stack pointer at lt_observe_sp or above. */
void lt_observe_return(const VexGuestAMD64State *regs);
/* The stack pointer at which the running thread's call ends; all ones = there is no call. */
extern Addr lt_observe_sp;

/* Is the thread inside such a function? What it gets from other heaps meanwhile is raw material. */
Bool lt_observe_inside(ThreadId tid);
/* A thread is about to run. */
void lt_observe_thread(ThreadId tid);
/* A thread has ended. */
void lt_observe_thread_ends(ThreadId tid);
/* Is an observed function within these addresses? */
Bool lt_observe_any_in(Addr from, SizeT size);
/* Objects may have been loaded. */
void lt_observe_mapped(void);
/* A range was unmapped. */
void lt_observe_unmapped(Addr from, SizeT size);

#endif
