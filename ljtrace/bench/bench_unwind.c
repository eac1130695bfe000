/* bench_unwind.c - how long the native unwinder needs for a stack, beside libunwind if that is installed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 *     ljtrace/bench/bench_unwind
 *
 * Prints nanoseconds of processor time for each stack. "same": the last stack again. "inner frames change": the inner
 * half is at another place each time. "all new": all frames but the outermost are. "first": one frame each of code
 * addresses in libc that were not followed before. libunwind has a cache of its own.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ljtrace/native/unwind/unwind.h"

enum { ROUNDS = 200000, MOST = 256 };

enum how { NOTHING, OURS, OTHERS };

static int (*s_other)(void **, int); /* unw_backtrace; NULL: not installed */
static enum how s_how;
static uint32_t s_stacks, s_depth;
static volatile int s_sink;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) void take(int times)
{
    uint64_t ips[MOST], sps[MOST];
    void *frames[MOST];
    for (int i = 0; i < times; i++)
        if (s_how == OURS)
            s_depth = native_unwind(NULL, ips, sps, MOST);
        else if (s_how == OTHERS)
            s_sink = s_other(frames, MOST);
    s_stacks += (uint32_t)times;
}

static __attribute__((noinline)) void recurse(int depth, void (*f)(int), int argument)
{
    if (depth > 0)
        recurse(depth - 1, f, argument);
    else
        f(argument);
    s_sink = depth; /* no tail call */
}

/* Call f at another stack pointer each time. */
static __attribute__((noinline)) void moved(int round, void (*f)(int))
{
    volatile char *space = alloca((size_t)(round * 7 % 61 + 1) * 16);
    space[0] = 1;
    f(round);
    s_sink = space[0];
}

static int s_inner;

static void inner(int round)
{
    (void)round;
    recurse(s_inner, take, 1);
}

static void move_inner(int round)
{
    moved(round, inner);
}

static void same(int depth)
{
    recurse(depth - 5, take, ROUNDS);
}

static void inner_frames_change(int depth)
{
    s_inner = depth / 2 - 6;
    for (int round = 0; round < ROUNDS / 100; round++)
        recurse(depth - depth / 2 - 3, move_inner, round);
}

static void all_new(int depth)
{
    s_inner = depth - 8;
    for (int round = 0; round < ROUNDS / 100; round++)
        move_inner(round);
}

/* Nanoseconds for each stack. */
static double measure(void (*f)(int), int depth, enum how how)
{
    s_how = how;
    f(depth); /* once before, for the caches */
    s_stacks = 0;
    const double begin = now();
    f(depth);
    return (now() - begin) / s_stacks;
}

static void report(const char *what, void (*f)(int), int depth)
{
    const double nothing = measure(f, depth, NOTHING), ours = measure(f, depth, OURS) - nothing;
    printf("%-22s %4u frames %8.1f ns", what, s_depth, ours);
    if (s_other)
        printf("   libunwind %8.1f ns", measure(f, depth, OTHERS) - nothing);
    printf("\n");
}

/* Follow one frame from addresses in code that were not followed before. */
static void measure_first(void)
{
    uint64_t ips[2], sps[2];
    const char *begin = dlsym(RTLD_DEFAULT, "qsort");
    const double start = now();
    int n = 0;
    for (int at = -100000; at < 400000; at += 97, n++) {
        const struct native_registers from = {(uint64_t)(uintptr_t)(begin + at), (uint64_t)(uintptr_t)ips,
                                              (uint64_t)(uintptr_t)ips};
        s_sink = (int)native_unwind(&from, ips, sps, 2);
    }
    printf("%-22s %4d frame  %8.1f ns\n", "first", 1, (now() - start) / n);
}

int main(void)
{
    void *library = dlopen("libunwind.so.8", RTLD_NOW);
    *(void **)&s_other = library ? dlsym(library, "unw_backtrace") : NULL;
    for (int depth = 20; depth <= 100; depth += 80) {
        report("same", same, depth);
        report("inner frames change", inner_frames_change, depth);
        report("all new", all_new, depth);
    }
    measure_first();
    return 0;
}
