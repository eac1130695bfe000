/* storm.c - everything at once: 64 threads that free each other's blocks, signals on stacks on the heap,
 * children that allocate, and those that execute another program.
 *
 * Each thread sends SIGNALS real-time signals, which are queued, to the next one, and leaves when its own
 * have come; handlers count in a block of 60123 bytes. Every eighth thread forks FORKS children, by turns one
 * that allocates and ends and one that executes another program. All numbers printed are known beforehand.
 * Output and status are the same with and without the recorder.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 64, ROUNDS = 60, BOXES = 97, SIGNALS = 5, FORKS = 2, STACK = 65536, COUNTERS = 60123 };

static pthread_t s_thread[THREADS];
static pthread_barrier_t s_all_there;
static _Atomic(char *) s_box[BOXES];
static atomic_int *s_count; /* by thread: signals handled */
static atomic_int s_ended, s_executed;
static _Thread_local int s_self;

static void on_signal(int signum)
{
    if (signum == SIGRTMIN)
        s_count[s_self]++;
}

static void take_stack(void)
{
    stack_t stack = {.ss_sp = malloc(STACK), .ss_size = STACK};
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGRTMIN);
    sigaltstack(&stack, NULL);
    pthread_sigmask(SIG_UNBLOCK, &wanted, NULL);
}

static void exchange(uint64_t seed)
{
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 16807 % 2147483647;
        char *mine = malloc(seed % 300 + 1);
        *(volatile char *)mine = 1;
        free(atomic_exchange(&s_box[seed % BOXES], mine));
    }
}

/* A child's status, 7 or that of true. */
static int child(int executes)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        exchange(12345);
        if (executes)
            execl("/bin/true", "true", (char *)NULL);
        _exit(executes ? 99 : 7);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_children(void)
{
    for (int i = 0; i < FORKS; i++) {
        int executes = i % 2;
        if (child(executes) == (executes ? 0 : 7))
            *(executes ? &s_executed : &s_ended) += 1;
    }
}

static void *run(void *arg)
{
    s_self = (int)(intptr_t)arg;
    take_stack();
    pthread_barrier_wait(&s_all_there);
    for (int i = 0; i < SIGNALS; i++) {
        exchange((uint64_t)s_self * 7919 + 1);
        pthread_sigqueue(s_thread[(s_self + 1) % THREADS], SIGRTMIN, (union sigval){0});
    }
    if (s_self % 8 == 0)
        make_children();
    while (s_count[s_self] < SIGNALS)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return NULL;
}

static void prepare(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigset_t blocked;
    s_count = malloc(COUNTERS);
    for (int i = 0; i < THREADS; i++)
        atomic_init(&s_count[i], 0);
    sigaction(SIGRTMIN, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN); /* until a thread has its stack */
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 20000}, {0, 20000}}, NULL);
    pthread_barrier_init(&s_all_there, NULL, THREADS);
}

int main(void)
{
    int handled = 0;
    prepare();
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&s_thread[i], NULL, run, (void *)i) != 0)
            return 99;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(s_thread[i], NULL);
        handled += s_count[i];
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    printf("handled %d, ended %d, executed %d\n", handled, s_ended, s_executed);
    return 5;
}
