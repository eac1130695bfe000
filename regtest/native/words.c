/* words.c - system calls that work on single words of the program's: futexes, and places in files.
 *
 * Each call has a block of its own (FIRST_SIZE bytes, one more for each call), which only the kernel accesses
 * while accesses are recorded. A line for each call: `size name result L offset... S offset...`, the words
 * that it reads and writes, as its manual page says; how long a word is, is for the case to know.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST_SIZE = 54001, FIRST = 16, SECOND = 80 };

static char *b; /* what the call works on */
static int s_from, s_to, s_pipe;

static long futex(int command, long value, long more, long compared)
{
    LJTRACE_START();
    return syscall(SYS_futex, b + FIRST, command | FUTEX_PRIVATE_FLAG, value, more, b + SECOND, compared);
}

static long w_wake(void)
{
    return futex(FUTEX_WAKE, 1, 0, 0);
}
static long w_wake_bitset(void)
{
    return futex(FUTEX_WAKE_BITSET, 1, 0, 3);
}
static long w_wait(void)
{
    return futex(FUTEX_WAIT, 7, 0, 0); /* is 0: returns at once */
}
static long w_requeue(void)
{
    return futex(FUTEX_REQUEUE, 1, 1, 0);
}
static long w_cmp_requeue(void)
{
    return futex(FUTEX_CMP_REQUEUE, 1, 1, 0);
}
static long w_wake_op(void)
{
    return futex(FUTEX_WAKE_OP, 1, 1, FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 5));
}
static long w_lock(void)
{
    return futex(FUTEX_LOCK_PI, 0, 0, 0);
}
static long w_try_lock(void)
{
    return futex(FUTEX_TRYLOCK_PI, 0, 0, 0);
}
static long w_unlock(void)
{
    *(int32_t *)(b + FIRST) = getpid(); /* as the lock of this thread */
    return futex(FUTEX_UNLOCK_PI, 0, 0, 0);
}

static long w_splice(void)
{
    LJTRACE_START();
    return splice(s_from, (loff_t *)(b + FIRST), s_pipe, NULL, 10, 0);
}
static long w_copy(void)
{
    LJTRACE_START();
    return copy_file_range(s_from, (loff_t *)(b + FIRST), s_to, (loff_t *)(b + SECOND), 10, 0);
}

static const struct {
    const char *name;
    long (*call)(void);
    int read[2], written[2];
} s_calls[] = {
    {"wake", w_wake, {0}, {0}},
    {"wake-bitset", w_wake_bitset, {0}, {0}},
    {"wait", w_wait, {FIRST}, {0}},
    {"requeue", w_requeue, {0}, {0}},
    {"cmp-requeue", w_cmp_requeue, {FIRST}, {0}},
    {"wake-op", w_wake_op, {SECOND}, {SECOND}},
    {"lock-pi", w_lock, {FIRST}, {FIRST}},
    {"try-lock-pi", w_try_lock, {FIRST}, {FIRST}},
    {"unlock-pi", w_unlock, {FIRST}, {FIRST}},
    {"splice", w_splice, {FIRST}, {FIRST}},
    {"copy_file_range", w_copy, {FIRST, SECOND}, {FIRST, SECOND}},
};

static void print(char letter, const int *offsets)
{
    for (int i = 0; i < 2; i++)
        if (offsets[i])
            printf(" %c %d", letter, offsets[i]);
}

static void open_all(void)
{
    char name[] = "/tmp/words.XXXXXX", other[] = "/tmp/words.XXXXXX";
    int ends[2];
    s_from = mkstemp(name);
    s_to = mkstemp(other);
    unlink(name);
    unlink(other);
    if (s_from < 0 || s_to < 0 || pipe(ends) != 0 || write(s_from, "twenty of characters", 20) != 20)
        exit(1);
    s_pipe = ends[1];
}

int main(void)
{
    LJTRACE_STOP();
    open_all();
    for (size_t i = 0; i < sizeof s_calls / sizeof *s_calls; i++) {
        b = calloc(1, FIRST_SIZE + i);
        long result = s_calls[i].call();
        LJTRACE_STOP();
        printf("%zu %s %ld", FIRST_SIZE + i, s_calls[i].name, result);
        print('L', s_calls[i].read);
        print('S', s_calls[i].written);
        puts("");
    }
    return 0;
}
