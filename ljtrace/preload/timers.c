/* timers.c - inside the program: a stopped timer's last signal comes before the timer is known to be stopped.
 * (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel delivers what has expired before setitimer returns, and programs rely on it: LuaJIT's profiler
 * (`luajit -jp`, jit.profile) stops its timer, then gives SIGPROF its old action back, which is to end the
 * process. Valgrind keeps signals blocked while the program computes and in calls that do not wait; one that
 * came in between would be delivered after the action has changed. A call that may wait lets it in. Not for
 * the timers of timer_create, whose users have no such order to rely on.
 */
#include "../ljtrace.h"
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

/* Sleep for no time: here Valgrind delivers what is pending. Leaves errno as it is. */
static void let_signals_in(void)
{
    struct timespec none = {0, 0};
    long status;
    __asm__ volatile("syscall"
                     : "=a"(status)
                     : "0"(SYS_nanosleep), "D"(&none), "S"(NULL)
                     : "rcx", "r11", "memory");
    (void)status;
}

static int stops(const struct itimerval *new)
{
    return new &&new->it_value.tv_sec == 0 && new->it_value.tv_usec == 0;
}

/* int setitimer(int which, const struct itimerval *new, struct itimerval *old) */
int I_WRAP_SONAME_FNNAME_ZZ(libcZdsoZa, setitimer)(int which, const struct itimerval *new,
                                                   struct itimerval *old);
int I_WRAP_SONAME_FNNAME_ZZ(libcZdsoZa, setitimer)(int which, const struct itimerval *new,
                                                   struct itimerval *old)
{
    OrigFn fn;
    int status;
    VALGRIND_GET_ORIG_FN(fn);
    CALL_FN_W_WWW(status, fn, which, new, old);
    if (status == 0 && stops(new))
        let_signals_in();
    return status;
}
