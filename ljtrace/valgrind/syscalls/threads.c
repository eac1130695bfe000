/* threads.c - note the current thread in the ring when it changes, and record the names of threads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind reuses the number of a thread that has ended. The trace's thread numbers are never reused, so that
 * the thread that allocates a block and the one that frees it can be distinguished. They have 16 bits: all
 * threads after the 65,534th share the last number.
 */
#include "ljtrace/valgrind/syscalls/threads.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/heaps/leak_scan.h"
#include "ljtrace/valgrind/heaps/observe.h"
#include "ljtrace/valgrind/instrument/toggle.h"
#include "ljtrace/valgrind/luajit/allocator_calls.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { LAST_NUMBER = 0xffff, NAME_BYTES = 16, SET_NAME = 15 /* PR_SET_NAME */ };

static ThreadId s_thread;
static UInt *s_numbers; /* indexed by Valgrind's thread number; 0 = none yet */
static UInt s_given;    /* how many numbers were given out */
/* The name of a thread that was not named by anyone: the program's. */
static HChar s_usual[NAME_BYTES];

static UInt number_of(ThreadId tid)
{
    tl_assert(tid < VG_N_THREADS);
    if (!s_numbers)
        s_numbers = VG_(calloc)("ljtrace.threads", VG_N_THREADS, sizeof *s_numbers);
    if (!s_numbers[tid])
        s_numbers[tid] = s_given < LAST_NUMBER ? ++s_given : LAST_NUMBER;
    return s_numbers[tid];
}

void lt_thread_runs(ThreadId tid)
{
    if (tid == s_thread)
        return;
    program_forget();
    s_thread = tid;
    HOST_PUT(thread, .thread = number_of(tid));
    lt_lua_thread(tid);
    lt_toggle_thread(tid);
    lt_observe_thread(tid);
}

/* Read the name of the running thread from the kernel; "" if it cannot be read. */
static void read_name(HChar name[NAME_BYTES])
{
    Int fd = VG_(fd_open)("/proc/thread-self/comm", VKI_O_RDONLY, 0);
    Int n = fd < 0 ? 0 : VG_(read)(fd, name, NAME_BYTES);
    if (fd >= 0)
        VG_(close)(fd);
    n = n < 0 ? 0 : n < NAME_BYTES ? n : NAME_BYTES - 1;
    name[n] = 0;
    if (n && name[n - 1] == '\n')
        name[n - 1] = 0;
}

void lt_thread_put_name(ThreadId tid)
{
    HChar name[NAME_BYTES], key[32];
    read_name(name);
    if (!name[0] || VG_(strcmp)(name, s_usual) == 0)
        return;
    VG_(sprintf)(key, "thread %u", number_of(tid));
    lt_put_info(key, name);
}

void lt_thread_after(ThreadId tid, UInt syscall, const UWord *args, Long result)
{
    if (syscall == __NR_prctl && args[0] == SET_NAME && result == 0)
        lt_thread_put_name(tid);
}

/* A thread exits. The next thread that Valgrind gives this number is another one. */
static void on_exit(ThreadId tid)
{
    lt_thread_put_name(tid);
    lt_leak_scan_thread_ends(tid);
    lt_toggle_thread_ends(tid);
    lt_observe_thread_ends(tid);
    if (s_numbers)
        s_numbers[tid] = 0;
    if (s_thread == tid)
        s_thread = VG_INVALID_THREADID;
}

void lt_thread_init(void)
{
    VG_(track_pre_thread_ll_exit)(on_exit);
}

void lt_thread_start(void)
{
    read_name(s_usual);
}

/* -- turns -- */

enum {
    PAUSE_NANOSECONDS = 100000,
    MOST_PAUSES = 500,
    WHOLE_TURN = 90000 /* superblocks; a turn has 100,000 at most */
};

struct sched_lock;
void __real_vgModuleLocal_acquire_sched_lock(struct sched_lock *lock);
void __wrap_vgModuleLocal_acquire_sched_lock(struct sched_lock *lock);

static ULong s_begun; /* superblocks run when this turn began */
/* The kernel's number of the thread whose turn is over; 0 = none. */
static volatile Long s_gives_up;
static volatile Int s_waiting; /* threads that want the lock */
static volatile ULong s_taken; /* how often a thread has got the lock */

/* Pauses once, because a thread that has just released the lock may not have got to the point where it wants the lock
 * again. Then goes on until another thread has got the lock, if one wants it: on a busy machine, the kernel may let a
 * thread wait that could run. Returns after 50 milliseconds in any case. */
static void let_another_go_first(void)
{
    struct vki_timespec moment = {0, PAUSE_NANOSECONDS};
    const ULong taken = s_taken;

    for (Int i = 0; i < MOST_PAUSES && (i == 0 || s_waiting > 1) && s_taken == taken; i++)
        lt_sys(__NR_nanosleep, (ULong)(Addr)&moment, 0, 0, 0, 0, 0);
}

/* Called without the lock. s_gives_up can only equal the number of the calling thread if that thread has set
 * it, so reading it without the lock is safe. */
void __wrap_vgModuleLocal_acquire_sched_lock(struct sched_lock *lock)
{
    __sync_fetch_and_add(&s_waiting, 1);
    if (s_gives_up && s_gives_up == lt_sys(__NR_gettid, 0, 0, 0, 0, 0, 0)) {
        s_gives_up = 0;
        let_another_go_first();
    }
    __real_vgModuleLocal_acquire_sched_lock(lock);
    __sync_fetch_and_sub(&s_waiting, 1);
    s_taken++;
}

/* The other threads do not exist in a forked child. */
static void in_child(ThreadId tid)
{
    s_waiting = 0;
}

static void on_stop(ThreadId tid, ULong blocks)
{
    const Bool over = blocks - s_begun >= WHOLE_TURN && VG_(count_living_threads)() > 1;
    s_gives_up = over && lt_prefault_may_call() ? lt_sys(__NR_gettid, 0, 0, 0, 0, 0, 0) : 0;
    s_begun = blocks;
}

void lt_turns_init(void)
{
    VG_(atfork)(NULL, NULL, in_child);
    VG_(track_stop_client_code)(on_stop);
}
