/* ownheap.c - a program, or with -DPLUGIN a library, that brings its own allocator.
 *
 *     ownheap ACTION...
 *
 * The names of the allocator are PREFIX + malloc and so on; SHARED says who can call it. With -DSYSTEM it has none.
 * work: allocates blocks of the sizes below, and frees nearly all. threads: threads that resize blocks, while the program
 * forks. handover: another thread gets the block that a realloc has freed before that has
 * returned. handler: a signal comes while a block is made, and its handler makes one. live: works whenever it can read a byte
 * from standard input, and answers by one; with `live-threads` another thread runs. big: uses 8 MiB.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PREFIX
#define PREFIX
#endif
#ifndef SHARED
#define SHARED
#endif
#define OWN__(prefix, name) prefix##name
#define OWN_(prefix, name) OWN__(prefix, name)
#define OWN(name) OWN_(PREFIX, name)

static volatile sig_atomic_t interrupts;
#define OWN_INSIDE()                                                                                         \
    if (interrupts) {                                                                                        \
        interrupts = 0;                                                                                      \
        pthread_mutex_unlock(&own_lock);                                                                     \
        raise(SIGUSR1);                                                                                      \
        pthread_mutex_lock(&own_lock);                                                                       \
    }
static volatile sig_atomic_t hands_over;
static sem_t freed, taken;
#define OWN_FREED()                                                                                          \
    if (hands_over) {                                                                                        \
        hands_over = 0;                                                                                      \
        sem_post(&freed);                                                                                    \
        sem_wait(&taken);                                                                                    \
    }

#ifdef SYSTEM
#undef OWN
#define OWN(name) name
#include <pthread.h>
#else
#include "regtest/native/ownheap.h"
#endif

enum { MADE = 1001, ZEROED = 1003, GROWN = 3005, KEPT = 1007, OF_HANDLER = 1009, OF_THREAD = 5003 };

static void *volatile passed; /* so that no call is left out */

__attribute__((noinline)) void work(void);
void work(void)
{
    for (int i = 0; i < 100; i++)
        OWN(free)(passed = OWN(malloc)(MADE));
    for (int i = 0; i < 10; i++) {
        passed = OWN(calloc)(1, ZEROED);
        passed = OWN(realloc)(passed, GROWN);
        OWN(free)(passed);
    }
    passed = OWN(malloc)(KEPT);
}

#ifndef PLUGIN
static void on_signal(int number)
{
    (void)number;
    OWN(free)(passed = OWN(malloc)(OF_HANDLER));
}

static void *resizes(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        char *p = OWN(malloc)(100);
        for (int size = 200; size <= OF_THREAD; size += 1601)
            p = OWN(realloc)(p, (size_t)size);
        OWN(free)(p);
    }
    return arg;
}

#ifndef SYSTEM
static void before_fork(void)
{
    pthread_mutex_lock(&own_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&own_lock);
}

#endif

static void threads(void)
{
    pthread_t t[3];
#ifndef SYSTEM
    pthread_atfork(before_fork, after_fork, after_fork);
#endif
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, resizes, NULL);
    for (int i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}

static void *takes(void *arg)
{
    sem_wait(&freed);
    passed = OWN(malloc)(ZEROED);
    sem_post(&taken);
    return arg;
}

static void handover(void)
{
    pthread_t t;
    char *p = OWN(malloc)(MADE), *old = p;
    sem_init(&freed, 0, 0);
    sem_init(&taken, 0, 0);
    pthread_create(&t, NULL, takes, NULL);
    hands_over = 1;
    p = OWN(realloc)(p, GROWN);
    pthread_join(t, NULL);
    if (passed != old)
        abort();
    OWN(free)(p);
    OWN(free)(passed);
}

static void handler(void)
{
    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &act, NULL);
    interrupts = 1;
    OWN(free)(passed = OWN(malloc)(MADE));
}

static void *waits(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void live(int more)
{
    char byte;
    pthread_t t;
    if (more)
        pthread_create(&t, NULL, waits, NULL);
    while (read(0, &byte, 1) == 1) {
        work();
        if (write(1, &byte, 1) != 1)
            abort();
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "work") == 0)
            work();
        else if (strcmp(argv[i], "threads") == 0)
            threads();
        else if (strcmp(argv[i], "handover") == 0)
            handover();
        else if (strcmp(argv[i], "handler") == 0)
            handler();
        else if (strcmp(argv[i], "big") == 0)
            memset(OWN(malloc)(8 << 20), 1, 8 << 20);
        else
            live(strcmp(argv[i], "live-threads") == 0);
    return 7;
}
#endif
