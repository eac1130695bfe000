/* waits.c - each thread waits in another system call, which a recorder that comes must not end early.
 *
 *     waits CALL      the first thread is in CALL: sleep, nanosleep, clock, poll, epoll, select, futex, recv, read
 *
 * It writes "waiting" when it begins, then each call that did not wait for SECONDS or returned something else.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 3, CALLS = 9 };

static int s_pipe[2],
    s_late[2]; /* the first is never written to; the other end of the second is closed after SECONDS */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long in_sleep(void)
{
    return sleep(SECONDS);
}

static long in_nanosleep(void)
{
    return nanosleep(&(struct timespec){SECONDS, 0}, NULL);
}

static long in_clock(void)
{
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){SECONDS, 0}, NULL);
}

static long in_poll(void)
{
    return poll(&(struct pollfd){.fd = s_pipe[0], .events = POLLIN}, 1, SECONDS * 1000);
}

static long in_epoll(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    const int fd = epoll_create1(0);
    return epoll_ctl(fd, EPOLL_CTL_ADD, s_pipe[0], &event) ? -1 : epoll_wait(fd, &event, 1, SECONDS * 1000);
}

static long in_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(s_pipe[0], &set);
    return select(s_pipe[0] + 1, &set, NULL, NULL, &(struct timeval){SECONDS, 0});
}

static long in_futex(void)
{
    sem_t semaphore;
    struct timespec until;
    sem_init(&semaphore, 0, 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SECONDS;
    return sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT ? 0 : -1;
}

static long in_recv(void)
{
    int both[2];
    char byte;
    const struct timeval most = {SECONDS, 0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, both) ||
        setsockopt(both[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most))
        return -1;
    return recv(both[0], &byte, 1, 0) == -1 && errno == EAGAIN ? 0 : -1;
}

static long in_read(void)
{
    char byte;
    return read(s_late[0], &byte, 1);
}

static const struct call {
    const char *name;
    long (*wait)(void);
} s_calls[CALLS] = {{"sleep", in_sleep}, {"nanosleep", in_nanosleep}, {"clock", in_clock},
                    {"poll", in_poll},   {"epoll", in_epoll},         {"select", in_select},
                    {"futex", in_futex}, {"recv", in_recv},           {"read", in_read}};

static void *wait_in(void *any)
{
    const struct call *call = any;
    const double before = now();
    errno = 0;
    const long result = call->wait();
    const int error = errno;
    const double waited = now() - before;
    if (result != 0 || waited < SECONDS - 0.01)
        printf("%s: returned %ld after %.2f s (%s)\n", call->name, result, waited, strerror(error));
    return NULL;
}

/* Until a moment, not for a time: however often it is interrupted. */
static void *close_late(void *any)
{
    const double until = now() + SECONDS + 0.5; /* the reader may begin later than this thread */
    while (now() < until)
        usleep(1000);
    close(s_late[1]);
    return any;
}

int main(int argc, char **argv)
{
    pthread_t thread[CALLS + 1];
    int threads = 0;
    const struct call *own = NULL;
    if (pipe(s_pipe) || pipe(s_late) || argc != 2)
        return 2;
    free(malloc(1));
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_create(&thread[threads++], NULL, close_late, NULL);
    for (int i = 0; i < CALLS; i++)
        if (strcmp(s_calls[i].name, argv[1]) == 0)
            own = &s_calls[i];
        else
            pthread_create(&thread[threads++], NULL, wait_in, (void *)&s_calls[i]);
    if (!own)
        return 2;
    puts("waiting");
    wait_in((void *)own);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
