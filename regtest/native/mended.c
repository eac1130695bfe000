/* mended.c - an access that fails is repeated, with the registers of then, once its page is there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * usage: mended [again | plain | made]
 *
 * What collectors, databases and emulators do: a handler of SIGSEGV makes the page accessible and returns.
 * The access is in a run of instructions that puts a number into a register before it, uses it behind it and
 * then puts another one there, so a recorder that leaves out what is overwritten is found. With "again" the same
 * code has run before there was a handler; with "plain" the handler does not get the address; with "made" it
 * stands in memory of no file. Prints the sum, 116 if the register was in its place; then the
 * status is 0.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, RIGHT = 116 };

static char *s_page;

static void mend(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if ((char *)info->si_addr >= s_page && (char *)info->si_addr < s_page + PAGE)
        mprotect(s_page, PAGE, PROT_READ);
}

static void mend_all(int number)
{
    (void)number;
    mprotect(s_page, PAGE, PROT_READ);
}

__attribute__((noinline)) static long added(const char *from)
{
    long sum, number = 0;
    __asm__ volatile("mov $111, %1\n\t"
                     "mov (%2), %0\n\t"
                     "lea 5(%1,%0), %0\n\t"
                     "mov $7, %1"
                     : "=&r"(sum), "+r"(number)
                     : "r"(from)
                     : "memory");
    return sum;
}

/* added, in anonymous memory. */
static long (*copied(void))(const char *)
{
    void *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memcpy(code, (const void *)added, 128);
}

int main(int argc, char **argv)
{
    s_page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (argc > 1 && strcmp(argv[1], "again") == 0)
        added(s_page);
    struct sigaction action = {.sa_sigaction = mend, .sa_flags = SA_SIGINFO};
    if (argc > 1 && strcmp(argv[1], "plain") == 0)
        action = (struct sigaction){.sa_handler = mend_all};
    sigaction(SIGSEGV, &action, NULL);
    mprotect(s_page, PAGE, PROT_NONE);
    long (*code)(const char *) = argc > 1 && strcmp(argv[1], "made") == 0 ? copied() : added;
    long sum = code(s_page);
    printf("%ld\n", sum);
    return sum != RIGHT;
}
