/* stack_sampler.c - records the stack of each thread after each interval of its CPU time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The handler may interrupt any code. If that is the recorder in the middle of an event, the sample is dropped, and its
 * time is counted nowhere. If the ring is not free soon, the weight is added to the next sample: the handler must not wait for it without
 * a limit, because the interrupted code may have a lock of the program, for which the thread that uses the ring waits.
 *
 * The signal is the last real-time signal. SIGPROF is usual for profilers and may be used by the program. Programs that
 * block all signals would never be sampled, so the functions that do so leave this signal out.
 */
#define _GNU_SOURCE
#include "ljtrace/native/stack_sampler.h"
#include "ljtrace/native/cpu_timer.h"
#include "ljtrace/native/events.h"
#include "ljtrace/native/lua_stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static uint64_t s_interval; /* 0 = no samples */
static int s_signal;
static pthread_key_t s_thread_ends;

/* The sampling of a thread. */
NATIVE_THREAD_LOCAL struct {
    bool joined;
    struct cpu_timer timer;
    uint64_t last; /* its CPU time at the last sample */
    bool hidden;
    bool lent;    /* between stack_sampler_lend and stack_sampler_return */
    uint64_t due; /* CPU time that was noticed meanwhile */
} t_self;

/* -- samples -- */

/* at: see lua_stack_sample. The ring is locked. */
static void take(const ucontext_t *at, uint64_t weight)
{
    struct lua_sample s;
    lua_stack_sample(at, &s);
    NATIVE_PUT(sample, .vm = s.vm, .heap = s.heap, .instructions = native_now(), .weight = weight,
               .ips = s.ips, .ips_count = s.depth);
}

/* Record a sample. Returns false if the time since the last one has to be added to the next. */
static bool try_sample(const ucontext_t *at, uint64_t weight)
{
    if (t_self.hidden)
        return true;
    if (t_self.lent) {
        t_self.due += weight;
        return true;
    }
    const enum native_chance chance = native_try_enter((uint64_t)__builtin_frame_address(0));
    if (chance == NATIVE_ENTERED) {
        take(at, weight);
        native_leave();
    }
    return chance != NATIVE_LATER;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    const int error = errno;
    const uint64_t now = cpu_timer_now();
    (void)signal;
    if (info->si_code == SI_TIMER && now > t_self.last && try_sample(context, now - t_self.last))
        t_self.last = now;
    errno = error;
}

void stack_sampler_lend(void)
{
    t_self.due = 0;
    t_self.lent = s_interval != 0;
}

void stack_sampler_return(void)
{
    t_self.lent = false;
    if (t_self.due)
        take(NULL, t_self.due);
}

void stack_sampler_hide(bool on)
{
    t_self.hidden = on;
}

/* -- threads -- */

static void leave(void *any)
{
    (void)any;
    cpu_timer_stop(&t_self.timer);
}

void stack_sampler_join(void)
{
    sigset_t set;
    if (!s_interval || t_self.joined)
        return;
    t_self.joined = true;
    t_self.last = cpu_timer_now();
    sigemptyset(&set);
    sigaddset(&set, s_signal);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    if (cpu_timer_start(&t_self.timer, s_signal, s_interval))
        pthread_setspecific(s_thread_ends, &t_self); /* any value: the key has a destructor */
}

void stack_sampler_anew(void)
{
    t_self.joined = false;
    t_self.lent = false;
    stack_sampler_join();
}

void stack_sampler_init(uint64_t interval)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    if (!interval)
        return;
    s_signal = SIGRTMAX;
    sigfillset(&action.sa_mask);
    if (pthread_key_create(&s_thread_ends, leave) != 0 || sigaction(s_signal, &action, NULL) != 0)
        return;
    s_interval = interval;
    stack_sampler_join();
}

/* -- replaced functions -- */

/* What a new thread executes. */
struct start {
    void *(*function)(void *);
    void *argument;
};

static void *begin_thread(void *any)
{
    const struct start s = *(struct start *)any;
    munmap(any, sizeof s);
    stack_sampler_join();
    return s.function(s.argument);
}

NATIVE_PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*function)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))native_next(
            "pthread_create");
    struct start *s = s_interval && native_is_on() ? native_memory(sizeof *s) : NULL;
    if (!s)
        return real(thread, attributes, function, argument);
    *s = (struct start){function, argument};
    const int failed = real(thread, attributes, begin_thread, s);
    if (failed)
        munmap(s, sizeof *s);
    return failed;
}

/* The signals that a thread wants to block, without that of the sampler. */
static const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *room)
{
    if (!set || !s_interval || how == SIG_UNBLOCK)
        return set;
    *room = *set;
    sigdelset(room, s_signal);
    return room;
}

#define SIGMASK(name)                                                                                        \
    NATIVE_PUBLIC int name(int how, const sigset_t *set, sigset_t *old)                                      \
    {                                                                                                        \
        static int (*real)(int, const sigset_t *, sigset_t *);                                               \
        sigset_t room;                                                                                       \
        if (!real)                                                                                           \
            real = (int (*)(int, const sigset_t *, sigset_t *))native_next(#name);                           \
        return real(how, without_ours(how, set, &room), old);                                                \
    }
SIGMASK(sigprocmask)
SIGMASK(pthread_sigmask)
