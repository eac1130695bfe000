/* leaky.cc - a program that loses blocks in each way that there is, for test_leak_scan.py.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An argument says how it ends: return, exit (within a call, so that main's variables are in use), abort, thread
 * (another thread ends it), wait (it does not).
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

struct node {
    node *next;
    char pad[24];
};
static std::vector<std::string> *volatile kept;
static char *volatile middle;
static pthread_barrier_t ready;

/* Its stack is in use at the end, and holds a block. */
static void *stay(void *)
{
    char *volatile held = (char *)malloc(100);
    held[0] = 1;
    pthread_barrier_wait(&ready);
    for (;;)
        pause();
    return held;
}

/* Its stack is not, and held one. */
static void *leave(void *)
{
    char *volatile lost = (char *)malloc(300);
    lost[0] = 1;
    return nullptr;
}

static void *leave_all(void *)
{
    exit(0);
}

/* c is lost; a and b, which lead to each other, are lost by it. */
__attribute__((noinline)) static void ring()
{
    node *a = new node(), *b = new node(), *c = new node();
    a->next = b;
    b->next = a;
    c->next = a;
    __asm__ volatile("" : : "r"(c) : "memory"); /* no compiler leaves them out */
}

__attribute__((noinline)) static void keep()
{
    kept = new std::vector<std::string>{std::string(200, 'a'), std::string(70, 'b')};
}

/* What calls leave on the stack is not to be taken for pointers: they are made below here, where wipe() writes. */
__attribute__((noinline)) static void deeper(void (*call)())
{
    char stack[4096];
    __asm__ volatile("" : : "r"(stack) : "memory");
    call();
    __asm__ volatile("" : : "r"(stack) : "memory");
}

__attribute__((noinline)) static void wipe()
{
    char stack[32768];
    memset(stack, 0, sizeof stack);
    __asm__ volatile("" : : "r"(stack) : "memory");
}

__attribute__((noinline)) static void start(void *(*run)(void *), bool join)
{
    pthread_t thread;
    pthread_create(&thread, nullptr, run, nullptr);
    if (join)
        pthread_join(thread, nullptr);
}

int main(int, char **argv)
{
    char *volatile local = (char *)malloc(1000);
    local[0] = 1;
    puts("some output");
    deeper(keep);
    deeper(ring);
    middle = (char *)malloc(500) + 100;
    pthread_barrier_init(&ready, nullptr, 2);
    start(leave, true);
    start(stay, false);
    pthread_barrier_wait(&ready);
    wipe();
    if (!strcmp(argv[1], "exit"))
        exit(0);
    if (!strcmp(argv[1], "abort"))
        abort();
    if (!strcmp(argv[1], "thread"))
        start(leave_all, true);
    while (!strcmp(argv[1], "wait"))
        pause();
    return 0;
}
