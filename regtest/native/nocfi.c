/* nocfi.c - blocks made under code of which no unwind information says who calls it (regtest/cases/test_cut_stacks.py).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The functions in assembly have no entries in .eh_frame. `framed` keeps the address of its frame in rbp, so its caller can be
 * found; `bare` does not. `astray` has in rbp the address of a frame that is not its own. A coroutine and a signal's handler
 * have stacks of their own.
 */
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

void *framed(size_t size);
void *bare(size_t size);
void *astray(size_t size);

__asm__(".text\n"
        ".globl framed, bare, astray\n"
        ".type framed, @function\n"
        "framed:\n\tpush %rbp\n\tmov %rsp, %rbp\n\tsub $48, %rsp\n\tcall malloc@PLT\n\tleave\n\tret\n"
        ".size framed, .-framed\n"
        ".type bare, @function\n"
        "bare:\n\tsub $24, %rsp\n\tcall malloc@PLT\n\tadd $24, %rsp\n\tret\n"
        ".size bare, .-bare\n"
        ".type astray, @function\n"
        "astray:\n\tsub $8, %rsp\n\tcall malloc@PLT\n\tadd $8, %rsp\n\tret\n"
        ".size astray, .-astray\n");

static __attribute__((noinline)) void *from_framed(size_t size)
{
    char *block = framed(size);
    block[0] = 1;
    return block;
}

static __attribute__((noinline)) void *from_bare(size_t size)
{
    char *block = bare(size);
    block[0] = 1;
    return block;
}

/* With a frame pointer of its own, which `astray` finds in rbp: by it, one would get to the caller of this function. */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) void *from_astray(size_t size)
{
    char *block = astray(size);
    block[0] = 1;
    return block;
}

static ucontext_t s_main, s_coroutine;

static __attribute__((noinline)) void in_coroutine(void)
{
    volatile char *block = malloc(44);
    block[0] = 1;
    free((void *)block);
}

static void in_handler(int signal)
{
    volatile char *block = malloc(55);
    block[0] = (char)signal;
    free((void *)block);
}

static __attribute__((noinline)) void on_other_stacks(char *first, char *second, size_t size)
{
    const stack_t alternate = {.ss_sp = second, .ss_size = size};
    const struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
    getcontext(&s_coroutine);
    s_coroutine.uc_stack.ss_sp = first;
    s_coroutine.uc_stack.ss_size = size;
    s_coroutine.uc_link = &s_main;
    makecontext(&s_coroutine, in_coroutine, 0);
    swapcontext(&s_main, &s_coroutine);
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

int main(void)
{
    static char stacks[2][65536];
    on_other_stacks(stacks[0], stacks[1], sizeof stacks[0]);
    for (int i = 0; i < 10; i++) {
        free(from_framed(11));
        free(from_bare(22));
        free(from_astray(33));
    }
    return 0;
}
