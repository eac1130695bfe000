/* living.c - a program to attach to. It runs until its standard input ends, and then writes what went wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * usage: living MODE; MODE is what the process does when the recorder comes:
 *   threads    three threads allocate, and the first one waits for them
 *   mallocs    the only thread is in malloc and free nearly all the time
 *   epoll, read, poll   the only thread waits in this system call, which must not fail
 *   sleep      it sleeps for a second again and again, which must not be cut short
 *   numbers    it computes with many registers and with memory below the stack pointer, and compares the results
 *   fork       it forks children, which allocate
 *   exec, execve   it executes itself in mode `read` when it gets SIGUSR1: by execl, or by a system call of its own
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 64 };

static volatile int s_ended;
static volatile sig_atomic_t s_execs;

static int input_has_ended(int milliseconds)
{
    struct pollfd one = {.fd = 0, .events = POLLIN};
    return poll(&one, 1, milliseconds) > 0;
}

/* Make, resize and free blocks; each is full of its own first byte. */
static void *work(void *seed)
{
    unsigned random = (unsigned)(size_t)seed;
    struct {
        unsigned char *at;
        size_t size;
    } block[BLOCKS] = {0};
    size_t wrong = 0;
    for (unsigned n = 0; !s_ended; n++) {
        if (n % 64 == 0)
            usleep(1000); /* so that traces stay small */
        random = random * 1103515245 + 12345;
        const unsigned i = (random >> 16) % BLOCKS;
        for (size_t k = 0; k < block[i].size; k += 16)
            wrong += block[i].at[k] != (unsigned char)i;
        block[i].size = 1 + (random >> 20) % 500;
        if (random & 1 << 12) {
            free(block[i].at);
            block[i].at = NULL;
        }
        block[i].at = realloc(block[i].at, block[i].size);
        memset(block[i].at, (int)i, block[i].size);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        free(block[i].at);
    return (void *)wrong;
}

static size_t threads(void)
{
    pthread_t thread[THREADS];
    size_t wrong = 0;
    void *result;
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, (void *)(i + 1));
    while (!input_has_ended(10))
        ;
    s_ended = 1;
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &result);
        wrong += (size_t)result;
    }
    return wrong;
}

static size_t mallocs(void)
{
    while (!input_has_ended(0))
        for (size_t i = 0; i < 100000; i++) {
            void *volatile p = malloc(i % 3000);
            free(p);
        }
    return 0;
}

static size_t wait_in_epoll(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    const int fd = epoll_create1(0);
    return epoll_ctl(fd, EPOLL_CTL_ADD, 0, &event) != 0 || epoll_wait(fd, &event, 1, -1) != 1;
}

static size_t wait_in_read(void)
{
    char byte;
    return read(0, &byte, 1) != 0;
}

static size_t wait_in_poll(void)
{
    struct pollfd one = {.fd = 0, .events = POLLIN};
    return poll(&one, 1, 600000) != 1;
}

static size_t sleeps(void)
{
    size_t wrong = 0;
    while (!input_has_ended(0)) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        const int failed = nanosleep(&(struct timespec){1, 0}, NULL);
        clock_gettime(CLOCK_MONOTONIC, &after);
        const double slept =
            (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
        wrong += failed || slept < 1;
    }
    return wrong;
}

/* A leaf function, whose variables are in registers and in the red zone. */
__attribute__((noinline)) static double compute(unsigned n)
{
    double a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
    volatile long red[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (unsigned i = 0; i < n; i++) {
        a = a * 1.0001 + b;
        b = b * 0.9999 - c * 1e-3;
        c = c * 0.9998 + d * 1e-3;
        d = d * 0.9997 + e * 1e-3;
        e = e * 0.9996 + f * 1e-3;
        f = f * 0.9995 + g * 1e-3;
        g = g * 0.9994 + h * 1e-3;
        h = h * 0.9993 + 1e-3;
        red[i & 7] += (long)i;
    }
    return a + b + c + d + e + f + g + h + (double)(red[0] ^ red[1] ^ red[2] ^ red[3] ^ red[4] ^ red[7]);
}

static size_t numbers(void)
{
    enum { MUCH = 100000 };
    const double wanted = compute(MUCH);
    size_t wrong = 0;
    while (!input_has_ended(0))
        for (int i = 0; i < 100; i++) {
            errno = i;
            wrong += compute(MUCH) != wanted || errno != i;
        }
    return wrong;
}

static size_t forks(void)
{
    size_t wrong = 0;
    while (!input_has_ended(20)) {
        int status = 1;
        const pid_t child = fork();
        if (child == 0) {
            void *volatile p = malloc(1234);
            free(p);
            _exit(0);
        }
        wrong += waitpid(child, &status, 0) != child || status;
    }
    return wrong;
}

static void on_signal(int signal)
{
    (void)signal;
    s_execs = 1;
}

static size_t execs(char *self, bool by_itself)
{
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    bool ended = false;
    while (!s_execs && !ended) /* a signal may come between two calls, so they have a limit */
        ended = input_has_ended(10);
    if (s_execs && by_itself)
        syscall(SYS_execve, self, (char *const[]){self, "read", NULL}, environ);
    else if (s_execs)
        execl(self, self, "read", NULL);
    return !ended;
}

static size_t live(char *self, const char *mode)
{
    if (strcmp(mode, "threads") == 0)
        return threads();
    if (strcmp(mode, "mallocs") == 0)
        return mallocs();
    if (strcmp(mode, "epoll") == 0)
        return wait_in_epoll();
    if (strcmp(mode, "read") == 0)
        return wait_in_read();
    if (strcmp(mode, "poll") == 0)
        return wait_in_poll();
    if (strcmp(mode, "sleep") == 0)
        return sleeps();
    if (strcmp(mode, "numbers") == 0)
        return numbers();
    if (strcmp(mode, "fork") == 0)
        return forks();
    const bool by_itself = strcmp(mode, "execve") == 0;
    return by_itself || strcmp(mode, "exec") == 0 ? execs(self, by_itself) : 1;
}

int main(int argc, char **argv)
{
    const size_t wrong = argc == 2 ? live(argv[0], argv[1]) : 1;
    printf("%zu wrong\n", wrong);
    return wrong ? 1 : 7;
}
