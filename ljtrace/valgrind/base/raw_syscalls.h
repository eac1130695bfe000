/* raw_syscalls.h - the few system calls that the tool needs and that Valgrind's tool interface does not have.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Results are the kernel's: a negative errno on failure. Nothing here changes the program's state.
 */
#ifndef LJTRACE_VALGRIND_BASE_RAW_SYSCALLS_H
#define LJTRACE_VALGRIND_BASE_RAW_SYSCALLS_H

#include "pub_tool_basics.h"

/* Make a system call. */
Long lt_sys(ULong number, ULong a, ULong b, ULong c, ULong d, ULong e, ULong f);

/* Create an anonymous file in memory, with close-on-exec. */
Int lt_memfd_create(const HChar *name);
/* Set the size of a file, even beyond the soft limit on file sizes. A hard limit below `size` is an error. */
Int lt_ftruncate(Int fd, ULong size);
/* Map fd or, if fd < 0, private zeroed memory at addr, replacing what is mapped there. */
Long lt_map_over(Addr addr, SizeT size, Int fd);
/* Create a pair of connected stream sockets, with close-on-exec. */
Int lt_socketpair(Int fds[2]);
/* Send all bytes without raising SIGPIPE. Returns a negative errno on failure. */
Int lt_send(Int fd, const void *buf, SizeT size);
/* Send `size` bytes and two descriptors. */
Int lt_send_fds(Int fd, const void *buf, SizeT size, const Int fds[2]);
/* Receive at least one byte; 0 = the other side is gone. */
Int lt_receive(Int fd, void *buf, SizeT size);
/* Move fd to a number that the program cannot use, with close-on-exec; -1 = none is free. */
Int lt_hide_fd(Int fd);
/* A copy of fd that survives exec and is not one of the three standard descriptors. */
Int lt_dup(Int fd);
/* A plain fork. VG_(fork) of Valgrind 3.19 leaves a pipe open in the parent, which the program could see. */
Int lt_fork(void);
/* The same, but wait() and its relatives do not see the child (except with __WALL and __WCLONE), and it does
 * not raise SIGCHLD. This ends when the child executes a program or its parent ends. */
Int lt_fork_unnoticed(void);
/* Does this process become the parent of orphaned descendants? This is so for the first process of a
 * namespace, as in a container, and for processes that have requested it. */
Bool lt_adopts_orphans(void);
/* Request that orphaned descendants become children of this process. */
void lt_adopt_orphans(void);
/* Wait until there are no more children. They do not become zombies (lt_default_signals). */
void lt_outlive_children(void);
/* Close all descriptors. */
void lt_close_all(void);
/* Begin a new session. */
void lt_setsid(void);
/* End the process. */
void lt_exit(Int status);
/* Set the signals for the collector. */
void lt_default_signals(void);

/* -- pages in few calls -- */

/* Call after the collector was started: that is done by a fork, after which each page that is present faults
 * once more. */
void lt_prefault_start(void);

/* This range will soon be written completely: have the kernel populate its pages at once. If that fails, the
 * first accesses do it as usual. */
void lt_prefault_needed(Addr from, SizeT size);

/* Call before each system call. A program that restricts its system calls may be killed for one of ours, so
 * from then on none is made here. */
void lt_prefault_before(UInt number, const UWord *args);
/* May system calls be made that the program did not make itself? */
Bool lt_prefault_may_call(void);

#endif
