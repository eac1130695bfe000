/* seccomp.c - notices that the program installs a seccomp filter.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The recorder makes system calls of its own, for which a filter may end the program. So the functions by which programs
 * install filters are replaced. The new filter is executed for each of these calls before it is in force (sandbox.c). If
 * it does not permit one, the recording ends there, and the trace says why. A filter that is installed by an instruction of
 * the program's own is noticed by the collector (ljtrace/collector/channel.c), and so too late for system calls that
 * the recorder makes in the meantime; it makes few.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/session.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/sandbox.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* -- the filter -- */

/* Can all this memory be read? */
static bool is_readable(uint64_t at, size_t n)
{
    for (uint64_t page = at & ~(uint64_t)(KERNEL_PAGE - 1); page < at + n; page += KERNEL_PAGE)
        if (!kernel_can_read(page))
            return false;
    return true;
}

static uint32_t uses(void)
{
    return SANDBOX_RECORD | (native_options.sample_stacks ? SANDBOX_SAMPLE : 0) |
           (native_options.attached ? SANDBOX_DETACH : 0);
}

static void recording_stop(const char *denied)
{
    static const char begin[] =
        "the recording ended when the program installed a seccomp filter that does not "
        "permit ";
    char text[sizeof begin + 40];
    *stpncpy(stpcpy(text, begin), denied, 39) = 0;
    native_problem(text);
    ljtrace_native_detach("");
    native_ring_quiet();
}

/* The program is about to install this filter; NULL: strict mode, in which it may read, write and end. Returns true if it
 * permits what recording needs. */
static bool before_filter(const struct sock_fprog *program)
{
    native_process.sandboxed = true;
    const char *denied = program ? sandbox_denies(program->filter, program->len, uses()) : "futex";
    if (denied) {
        recording_stop(denied);
        return false;
    }
    if (sandbox_denies(program->filter, program->len, SANDBOX_PATCH))
        native_process.patches = false;
    if (!native_options.attached && sandbox_denies(program->filter, program->len, SANDBOX_DETACH))
        got_deny();
    native_ring_count_filter(1);
    if (!native_options.forks || !(denied = sandbox_denies(program->filter, program->len, SANDBOX_FORK)))
        return true;
    native_options.forks = false;
    native_problem("forked children are not recorded: the program has installed a seccomp filter that denies "
                   "what that needs");
    return true;
}

/* The arguments of a call that will fail are no filter. Returns true if there is one that is permitted. */
static bool on_filter(unsigned long mode, unsigned long flags, unsigned long address)
{
    const struct sock_fprog *program = (const void *)address;
    const unsigned long known = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG |
                                SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_NEW_LISTENER |
                                SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
    const int error = errno;
    bool permitted = false;
    if (!native_is_on())
        return false;
    if (mode == SECCOMP_SET_MODE_STRICT && !flags && !address)
        before_filter(NULL);
    else if (mode == SECCOMP_SET_MODE_FILTER && !(flags & ~known) && is_readable(address, sizeof *program) &&
             program->len > 0 && program->len <= SANDBOX_MOST &&
             is_readable((uint64_t)program->filter, program->len * sizeof *program->filter))
        permitted = before_filter(program);
    errno = error;
    return permitted;
}

/* -- the replaced functions -- */

static long result_of(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

/* The result of a call that has installed a filter or not. */
static long installed(bool permitted, long result)
{
    if (permitted && result < 0)
        native_ring_count_filter(-1);
    return result_of(result);
}

NATIVE_PUBLIC int prctl(int option, ...)
{
    va_list list;
    unsigned long a[4];
    va_start(list, option);
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        a[i] = va_arg(list, unsigned long);
    va_end(list);
    bool permitted = false;
    if (option == PR_SET_SECCOMP && a[0] == SECCOMP_MODE_STRICT)
        on_filter(SECCOMP_SET_MODE_STRICT, 0, 0);
    else if (option == PR_SET_SECCOMP && a[0] == SECCOMP_MODE_FILTER)
        permitted = on_filter(SECCOMP_SET_MODE_FILTER, 0, a[1]);
    return (int)installed(permitted,
                          kernel_call(SYS_prctl, option, (long)a[0], (long)a[1], (long)a[2], (long)a[3], 0));
}

/* A call of syscall that may install a filter. */
__attribute__((used)) static long on_syscall(long number, unsigned long a, unsigned long b, unsigned long c,
                                             unsigned long d, unsigned long e)
{
    if (number == SYS_prctl)
        return prctl((int)a, b, c, d, e);
    const bool permitted = on_filter(a, b, c);
    return installed(permitted, kernel_call(number, (long)a, (long)b, (long)c, (long)d, (long)e, 0));
}

__attribute__((used)) static long failed(long error)
{
    errno = (int)error;
    return -1;
}

/* The same as libc's, except for these two system calls. It has no frame, because the child of a clone may return on
 * another stack. C sees no parameters, because gcc without optimisation saves those of a variadic function even here,
 * over the caller's frame. */
NATIVE_PUBLIC long own_syscall(void) __asm__("syscall");
__attribute__((naked)) long own_syscall(void)
{
    __asm__("cmp $317, %rdi\n je on_syscall\n" /* SYS_seccomp */
            "cmp $157, %rdi\n je on_syscall\n" /* SYS_prctl */
            "mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n"
            "mov %r9, %r8\n mov 8(%rsp), %r9\n"
            "syscall\n"
            "cmp $-4095, %rax\n jae 1f\n ret\n"
            "1: neg %rax\n mov %rax, %rdi\n jmp failed\n");
}
_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157, "these numbers are in the code above");
