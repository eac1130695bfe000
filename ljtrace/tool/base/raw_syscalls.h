/* raw_syscalls.h - the few system calls the tool needs and Valgrind's tool interface does not offer.
 * (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Results are the kernel's: a negative errno on failure. Nothing here touches the program's state.
 */
#ifndef LJTRACE_TOOL_BASE_RAW_SYSCALLS_H
#define LJTRACE_TOOL_BASE_RAW_SYSCALLS_H

#include "pub_tool_basics.h"

Long lt_sys(ULong number, ULong a, ULong b, ULong c, ULong d, ULong e, ULong f);

Int lt_memfd_create(const HChar *name);
/* Also beyond the soft limit on file sizes; a hard limit below `size` is an error. */
Int lt_ftruncate(Int fd, ULong size);
/* Map fd (or, fd < 0, private zeroed memory) over what is at addr. */
Long lt_map_over(Addr addr, SizeT size, Int fd);
Int lt_socketpair(Int fds[2]);
/* Send all of it without raising SIGPIPE; negative errno on failure. */
Int lt_send(Int fd, const void *buf, SizeT size);
/* Send `size` bytes along with two descriptors. */
Int lt_send_fds(Int fd, const void *buf, SizeT size, const Int fds[2]);
/* Receive at least a byte; 0 = the other side is gone. */
Int lt_receive(Int fd, void *buf, SizeT size);
/* Move fd out of the range of descriptors the program can see, with close-on-exec; -1 = no room. */
Int lt_hide_fd(Int fd);
/* A copy of fd that survives exec and is none of the three standard descriptors. */
Int lt_dup(Int fd);
/* fork without anything around it: VG_(fork) of Valgrind 3.19 leaves a pipe open in the parent, which the
 * program would see. */
Int lt_fork(void);
/* The same, but the child is none that wait() and its kin know of (__WALL and __WCLONE apart), nor does it
 * raise SIGCHLD: until it executes a program or its parent ends. */
Int lt_fork_unnoticed(void);
/* Will children of children become this process's when their parents end? So it is with the first process of
 * a namespace, as in a container, and with those that asked for it. */
Bool lt_adopts_orphans(void);
/* Ask for it, and stay until there are no more children. Children do not become zombies (lt_default_signals).
 */
void lt_adopt_orphans(void);
void lt_outlive_children(void);
void lt_close_all(void);
void lt_setsid(void);
void lt_exit(Int status);
void lt_default_signals(void);

#endif
