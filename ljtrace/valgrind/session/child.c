/* child.c - a ring and a collector for each forked child. (see child.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The child inherits its parent's blocks, which only the parent's collector knows. So the parent writes the
 * fork into the ring, at the point of the stream where it happens. There its collector forks too, and the new
 * collector takes over the child's ring together with the map of live blocks. The parent makes the child's
 * ring and socket before the fork. The child then sends the name of its trace, which may contain its process
 * id.
 */
#include "ljtrace/valgrind/session/child.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/luajit/vmstate.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/session/trace_name.h"
#include "ljtrace/valgrind/syscalls/buffers.h"
#include "ljtrace/valgrind/syscalls/exec.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"

static const HChar *s_name;
static Int s_memfd = -1, s_socket = -1; /* of the child about to be forked; -1 = none */
static UInt s_children;

const HChar *lt_child_name(void)
{
    return s_name;
}

UInt lt_child_children(void)
{
    return s_children;
}

static void close_both(void)
{
    if (s_memfd >= 0)
        VG_(close)(s_memfd);
    if (s_socket >= 0)
        VG_(close)(s_socket);
    s_memfd = s_socket = -1;
}

/* If anything fails here, the child is not recorded; the parent's recording goes on. */
static void before_fork(ThreadId tid)
{
    Int pair[2];
    if (!lt_options.trace_fork || !lt_ring_alive())
        return;
    s_memfd = lt_make_ring_memory();
    if (s_memfd < 0 || lt_socketpair(pair) < 0) {
        close_both();
        return;
    }
    s_socket = pair[0];
    lt_types_settle_all();
    lt_ring_announce_fork(s_memfd, pair[1]);
    VG_(close)(pair[1]);
}

static void in_parent(ThreadId tid)
{
    s_children += s_memfd >= 0;
    close_both();
}

static void in_child(ThreadId tid)
{
    lt_buffers_forget();
    lt_exec_in_child();
    if (!lt_ring_alive())
        return;
    const HChar *name = s_memfd < 0 ? NULL : lt_name_child();
    if (!name) {
        close_both();
        lt_ring_abandon();
        return;
    }
    const HChar *parents = s_name;
    s_name = name;
    s_children = 0;
    lt_ring_adopt(s_memfd, s_socket, s_name);
    s_memfd = s_socket = -1;
    lt_put_number("forked_from_pid", VG_(getppid)());
    lt_put_info("forked_from_file", parents);
    lt_put_number("pid", VG_(getpid)());
    lt_watch_report_all();
}

void lt_child_init(const HChar *name)
{
    s_name = name;
    VG_(atfork)(before_fork, in_parent, in_child);
}
