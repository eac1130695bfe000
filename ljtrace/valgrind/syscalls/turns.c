/* turns.c - make threads take turns. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/syscalls/turns.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/prefault.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

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
