/* stack_sampler.c - records the stack of each thread after each interval of its CPU time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The handler may interrupt any code. If that is the recorder in the middle of an event, the sample is dropped, and its
 * time is counted nowhere. If the ring does not become free soon, the sample's weight is added to the next sample: the
 * handler must not wait for the ring without a limit, because the interrupted code may hold a lock of the program for
 * which the thread that uses the ring waits.
 *
 * The signal is the last real-time signal that the program does not use. SIGPROF is usual for profilers and may be used by
 * the program. Programs that block all signals would never be sampled, so the functions that do so leave this signal out.
 * When the recording ends, a signal may still be pending, which would end the program then. To ignore it for a moment
 * discards it.
 *
 * Threads that ran before `ljtrace attach` get their timers from the thread that begins the recording. They join it at the
 * first signal or event. If a thread should get two timers at that moment, nothing is counted twice: the weight of a
 * sample is the CPU time since the last one.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/stack_sampler.h"
#include "ljtrace/native/inside/cpu_timer.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/lua_stack.h"
#include "ljtrace/protocol/table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { MOST_TIMERS = 8192 };

static volatile uint64_t s_interval;  /* 0 = no samples */
static volatile uint32_t s_recording; /* number of the recording with samples, from 1 */
static int s_signal;
static pthread_key_t s_thread_ends;
static bool s_is_incomplete; /* it was reported that a thread has no timer */

/* The timers of the recording. An entry belongs to the thread that has set `thread`. */
struct timer_entry {
    int thread;   /* 0 = the entry is free */
    int timer_id; /* less 1; 0 = the timer is not there yet */
};
LASTING_TABLE(struct timer_entry, s_timers, MOST_TIMERS);

/* The sampling of a thread. */
NATIVE_THREAD_LOCAL struct {
    uint32_t recording; /* the one that it has joined */
    uint64_t last;      /* its CPU time at the last sample */
    bool hidden;
    bool lent;    /* between stack_sampler_lend and stack_sampler_return */
    uint64_t due; /* CPU time that was noticed meanwhile */
} t_self;

/* -- samples -- */

/* at: see lua_stack_sample. The ring is locked. */
static void sample_take(const ucontext_t *at, uint64_t weight)
{
    struct lua_sample s;
    if (native_ring_drops(RING_LOST_OTHER))
        return;
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
        sample_take(at, weight);
        native_leave();
    }
    return chance != NATIVE_LATER;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    const int error = errno;
    (void)signal;
    if (native_is_on() && native_is_sandboxed())
        return;
    const uint64_t now = cpu_timer_now();
    if (t_self.recording != s_recording) {
        t_self.recording = s_recording;
        t_self.last = now;
    } else if (info->si_code == SI_TIMER && now > t_self.last && try_sample(context, now - t_self.last))
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
        sample_take(NULL, t_self.due);
}

void stack_sampler_hide(bool on)
{
    t_self.hidden = on;
}

/* -- timers -- */

static void report_missing_timer(void)
{
    if (__atomic_exchange_n(&s_is_incomplete, true, __ATOMIC_RELAXED))
        return;
    native_problem(
        "the stacks of some threads are not sampled: the kernel gives them no timer, which needs a free "
        "signal of the limit `ulimit -i`");
}

static struct timer_entry *find_entry(int thread)
{
    for (uint32_t i = 0; i < MOST_TIMERS; i++)
        if (__atomic_load_n(&s_timers[i].thread, __ATOMIC_ACQUIRE) == thread)
            return &s_timers[i];
    return NULL;
}

static struct timer_entry *new_entry(int thread)
{
    for (uint32_t i = 0; i < MOST_TIMERS; i++) {
        int expected = 0;
        if (__atomic_compare_exchange_n(&s_timers[i].thread, &expected, thread, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return &s_timers[i];
    }
    return NULL;
}

static void free_entry(struct timer_entry *e)
{
    const int id = __atomic_exchange_n(&e->timer_id, 0, __ATOMIC_ACQ_REL) - 1;
    if (id >= 0)
        cpu_timer_stop(&(struct cpu_timer){id, true});
    __atomic_store_n(&e->thread, 0, __ATOMIC_RELEASE);
}

static void start_timer(int thread)
{
    struct cpu_timer timer;
    struct timer_entry *e = new_entry(thread);
    if (!e || !cpu_timer_start(&timer, thread, s_signal, s_interval)) {
        if (e)
            free_entry(e);
        report_missing_timer();
        return;
    }
    __atomic_store_n(&e->timer_id, timer.id + 1, __ATOMIC_RELEASE);
    if (!s_interval)
        free_entry(e); /* the recording has ended meanwhile */
}

/* Start a timer for each thread of the process, except this one. */
static void start_timers(void)
{
    char bytes[4096];
    long n;
    const int self = cpu_timer_thread();
    const long fd =
        kernel_call(SYS_open, (long)"/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0) {
        native_problem("stacks are sampled only of threads that allocate: /proc/self/task cannot be read");
        return;
    }
    while ((n = kernel_call(SYS_getdents64, fd, (long)bytes, sizeof bytes, 0, 0, 0)) > 0)
        for (long at = 0; at < n;) {
            const struct dirent64 *e = (const void *)(bytes + at);
            const int thread = (int)strtol(e->d_name, NULL, 10);
            if (thread > 0 && thread != self && !find_entry(thread))
                start_timer(thread);
            at += e->d_reclen;
        }
    kernel_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* -- threads -- */

static void thread_leave(void *any)
{
    struct timer_entry *e = s_interval ? find_entry(cpu_timer_thread()) : NULL;
    (void)any;
    if (e)
        free_entry(e);
}

void stack_sampler_join(void)
{
    sigset_t set;
    if (!s_interval || t_self.recording == s_recording)
        return;
    t_self.recording = s_recording;
    t_self.last = cpu_timer_now();
    sigemptyset(&set);
    sigaddset(&set, s_signal);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_setspecific(s_thread_ends, &t_self); /* any value: the key has a destructor */
    const int thread = cpu_timer_thread();
    if (!find_entry(thread))
        start_timer(thread);
}

void stack_sampler_anew(void)
{
    memset(s_timers, 0, TABLE_BYTES(s_timers));
    t_self.recording = 0;
    t_self.lent = false;
    stack_sampler_join();
}

/* -- recordings -- */

/* The last signal that the program has no handler for and does not ignore; 0 = there is none. */
static int free_signal(void)
{
    struct sigaction action;
    for (int signal = SIGRTMAX; signal >= SIGRTMIN; signal--)
        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
            return signal;
    return 0;
}

/* Choose the signal and install its handler. Returns NULL, or why that is not possible. */
static const char *prepare(void)
{
    static bool has_key;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    s_signal = free_signal();
    if (!s_signal)
        return "stacks are not sampled: the program uses all real-time signals";
    has_key = has_key || pthread_key_create(&s_thread_ends, thread_leave) == 0;
    if (!has_key || sigaction(s_signal, &action, NULL) != 0)
        return "stacks are not sampled: the program has too many thread-specific keys";
    return NULL;
}

void stack_sampler_begin(uint64_t interval)
{
    const char *wrong = interval ? prepare() : NULL;
    if (wrong)
        native_problem(wrong);
    if (!interval || wrong)
        return;
    s_is_incomplete = false;
    s_recording++;
    s_interval = interval;
    stack_sampler_join();
    if (native_options.attached)
        start_timers();
}

void stack_sampler_end(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
    if (!s_interval)
        return;
    s_interval = 0;
    for (uint32_t i = 0; i < MOST_TIMERS; i++)
        if (__atomic_load_n(&s_timers[i].thread, __ATOMIC_ACQUIRE))
            free_entry(&s_timers[i]);
    sigaction(s_signal, &ignore, NULL);
    sigaction(s_signal, &usual, NULL);
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
    thread_leave(NULL); /* a thread that had the same number */
    stack_sampler_join();
    return s.function(s.argument);
}

static size_t stack_size(const pthread_attr_t *attributes)
{
    size_t size = 0;
    pthread_attr_t usual;
    if (attributes)
        pthread_attr_getstacksize(attributes, &size);
    else if (pthread_getattr_default_np(&usual) == 0)
        pthread_attr_getstacksize(&usual, &size);
    return size;
}

/* Is there no memory for the stack of a thread? */
static bool lacks_stack(const pthread_attr_t *attributes)
{
    const size_t size = native_is_on() ? stack_size(attributes) : 0;
    void *at = size ? native_memory(size) : NULL;
    if (at)
        munmap(at, size);
    return size && !at;
}

NATIVE_PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*function)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))native_next(
            "pthread_create");
    struct start *s = s_interval && native_is_on() ? native_memory(sizeof *s) : NULL;
    if (s)
        *s = (struct start){function, argument};
    const int failed =
        s ? real(thread, attributes, begin_thread, s) : real(thread, attributes, function, argument);
    if (failed && s)
        munmap(s, sizeof *s);
    if (failed == EAGAIN && lacks_stack(attributes) && native_gives_way(stack_size(attributes)))
        return real(thread, attributes, function, argument);
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
