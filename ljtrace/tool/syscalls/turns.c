/* turns.c - make threads take turns. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/tool/syscalls/turns.h"
#include "ljtrace/tool/base/core.h"
#include "ljtrace/tool/base/prefault.h"
#include "ljtrace/tool/base/raw_syscalls.h"
#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { WAIT_NANOSECONDS = 100000, WHOLE_TURN = 90000 /* superblocks; a turn has 100,000 at most */ };

struct sched_lock;
void __real_vgModuleLocal_acquire_sched_lock(struct sched_lock *lock);
void __wrap_vgModuleLocal_acquire_sched_lock(struct sched_lock *lock);

static ULong s_begun; /* superblocks run when this turn began */
/* The kernel's number of the thread whose turn is over; 0 = none. */
static volatile Long s_gives_up;

/* Called without the lock. s_gives_up can only equal the number of the calling thread if that thread has set
 * it, so reading it without the lock is safe. */
void __wrap_vgModuleLocal_acquire_sched_lock(struct sched_lock *lock)
{
    if (s_gives_up && s_gives_up == lt_sys(__NR_gettid, 0, 0, 0, 0, 0, 0)) {
        struct vki_timespec moment = {0, WAIT_NANOSECONDS};
        s_gives_up = 0;
        lt_sys(__NR_nanosleep, (ULong)(Addr)&moment, 0, 0, 0, 0, 0);
    }
    __real_vgModuleLocal_acquire_sched_lock(lock);
}

static void on_stop(ThreadId tid, ULong blocks)
{
    const Bool over = blocks - s_begun >= WHOLE_TURN && VG_(count_living_threads)() > 1;
    s_gives_up = over && lt_prefault_may_call() ? lt_sys(__NR_gettid, 0, 0, 0, 0, 0, 0) : 0;
    s_begun = blocks;
}

void lt_turns_init(void)
{
    VG_(track_stop_client_code)(on_stop);
}
