/* buffers.c - report what certain system calls read, by their arguments.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The core reports what must be defined for a call, which is not what the kernel reads. Of a write it reports
 * all bytes to be written, while the kernel reads only as many as there is room for, or none. Of structures
 * it reports the fields that matter, while the kernel copies the whole. For the calls below the core's
 * reports are ignored, and the copying by the kernel is reported instead: that of structures when the call
 * begins, that of data when the call returns and the number of bytes is known.
 *
 * Another thread may free the data before the call returns. This is correct if it has learnt from the
 * receiver that the data have arrived. So when a block ends, the data of all waiting calls are reported
 * first, in full.
 */
#include "ljtrace/valgrind/syscalls/buffers.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/syscalls/syscalls.h"
#include "ljtrace/valgrind/syscalls/threads.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* A range of the program's memory. */
struct range {
    Addr addr;
    SizeT size;
};

enum { EPOLL_EVENT = 12, EPOLL_DELETE = 2, FILE_OFFSET = 8, FILE_LOCK = 32 };

/* What the call that begins reads, according to this file. s_all: ignore all reports of the core for this
 * call. */
static struct range s_written;
static Bool s_all;

static Bool is_lock(UWord command)
{
    return (command >= VKI_F_GETLK && command <= VKI_F_SETLKW) ||
           (command >= VKI_F_OFD_GETLK && command <= VKI_F_OFD_SETLKW);
}

/* The structure that a call reads as a whole; size 0: none. */
static struct range structure(UInt number, const UWord *a)
{
    if (number == __NR_epoll_ctl && a[1] != EPOLL_DELETE)
        return (struct range){a[3], EPOLL_EVENT};
    if (number == __NR_bind || number == __NR_connect)
        return (struct range){a[1], (UInt)a[2]};
    if (number == __NR_sendto && a[4])
        return (struct range){a[4], (UInt)a[5]};
    if (number == __NR_fcntl && is_lock(a[1]))
        return (struct range){a[2], FILE_LOCK};
    if (number == __NR_sendfile && a[2])
        return (struct range){a[2], FILE_OFFSET};
    return (struct range){0, 0};
}

static Bool sends_buffer(UInt number)
{
    return number == __NR_write || number == __NR_pwrite64 || number == __NR_sendto;
}

static Bool sends_parts(UInt number)
{
    return number == __NR_writev || number == __NR_pwritev || number == __NR_pwritev2;
}

static Bool is_within(struct range outer, Addr addr, SizeT size)
{
    return addr >= outer.addr && size <= outer.size && addr - outer.addr <= outer.size - size;
}

static void touch_structure(struct range r)
{
    if (r.size > 0 && program_readable(r.addr, r.size))
        lt_syscall_access(RAW_LOAD, r.addr, r.size);
}

/* -- calls that send data, until they return ------------------------------------------------------------- */

enum { MOST_WAITING = 64 };
/* A call that sends data. */
static struct waiting {
    ThreadId tid;
    Bool parts;
    struct range data; /* with parts: address and length of their vector */
} s_waiting[MOST_WAITING];
static UInt s_waiting_count;

static void set_waiting_count(UInt n);

/* Report the first `left` bytes of a vector's parts. */
static void touch_parts(enum raw_access kind, Addr vector, UWord count, SizeT left)
{
    struct range part;
    program_forget(); /* other threads may have run during the call */
    for (UWord i = 0; left > 0 && i < count; i++) {
        if (!program_read(vector + i * sizeof part, &part, sizeof part))
            return;
        SizeT moved = part.size < left ? part.size : left;
        lt_syscall_access(kind, part.addr, moved);
        left -= moved;
    }
}

static void touch_sent(const struct waiting *w, SizeT sent)
{
    if (w->parts)
        touch_parts(RAW_LOAD, w->data.addr, w->data.size, sent);
    else
        lt_syscall_access(RAW_LOAD, w->data.addr, sent < w->data.size ? sent : w->data.size);
}

/* What a waiting call sends may be in a block that ends: report all of them in full before. */
static void report_all(void)
{
    ThreadId running = VG_(get_running_tid)();
    UInt n = s_waiting_count;
    set_waiting_count(0);
    for (UInt i = 0; i < n; i++) {
        lt_thread_runs(s_waiting[i].tid);
        touch_sent(&s_waiting[i], ~(SizeT)0);
    }
    lt_thread_runs(running);
}

static void set_waiting_count(UInt n)
{
    s_waiting_count = n;
    lt_before_block_ends(n ? report_all : NULL);
}

/* Wait for the result of a call. If too many calls are waiting, the call is reported at once, in full. */
static void begin_waiting(struct waiting w)
{
    if (s_waiting_count == MOST_WAITING)
        touch_sent(&w, ~(SizeT)0);
    else {
        s_waiting[s_waiting_count] = w;
        set_waiting_count(s_waiting_count + 1);
    }
}

/* The thread's call has ended, or is restarted after a signal (sent = 0). */
static void end_waiting(ThreadId tid, Long sent)
{
    for (UInt i = 0; i < s_waiting_count; i++)
        if (s_waiting[i].tid == tid) {
            if (sent > 0)
                touch_sent(&s_waiting[i], (SizeT)sent);
            s_waiting[i] = s_waiting[s_waiting_count - 1];
            set_waiting_count(s_waiting_count - 1);
            return;
        }
}

void lt_buffers_interrupted(ThreadId tid)
{
    end_waiting(tid, 0);
}

void lt_buffers_forget(void)
{
    set_waiting_count(0);
}

/* -- all calls ------------------------------------------------------------------------------------------- */

void lt_buffers_before(ThreadId tid, UInt number, const UWord *args)
{
    struct range parts = {args[1], args[2] * sizeof(struct range)};
    s_written = structure(number, args);
    touch_structure(s_written);
    if (sends_parts(number))
        touch_structure(parts);
    s_all = sends_parts(number) || sends_buffer(number);
    end_waiting(tid, 0);
    if (s_all)
        begin_waiting((struct waiting){tid, sends_parts(number), {args[1], args[2]}});
}

Bool lt_buffers_report(Addr addr, SizeT size)
{
    return s_all || is_within(s_written, addr, size);
}

/* Report the remote side of process_vm_readv and process_vm_writev if it is the program itself. */
static void touch_far_end(UInt number, const UWord *args, SizeT moved)
{
    if (args[0] != VG_(getpid)())
        return;
    if (number == __NR_process_vm_readv)
        touch_parts(RAW_LOAD, args[3], args[4], moved);
    else if (number == __NR_process_vm_writev)
        touch_parts(RAW_STORE, args[3], args[4], moved);
}

/* Report that these calls updated their file offsets: the core only reports that they read them. */
static void store_offsets(UInt number, const UWord *args)
{
    if (number != __NR_splice && number != __NR_copy_file_range)
        return;
    for (UInt i = 1; i <= 3; i += 2)
        if (args[i])
            lt_syscall_access(RAW_STORE, args[i], FILE_OFFSET);
}

void lt_buffers_after(ThreadId tid, UInt number, const UWord *args, Long result)
{
    end_waiting(tid, result);
    if (result <= 0)
        return;
    touch_far_end(number, args, (SizeT)result);
    store_offsets(number, args);
}
