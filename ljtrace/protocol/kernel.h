/* kernel.h - system calls without libc, which would change errno.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_PROTOCOL_KERNEL_H
#define LJTRACE_PROTOCOL_KERNEL_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* A system call; of an error, the result is -errno. */
static inline long kernel_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Can the page of this address be read? The kernel reads a signal set there before it refuses an operation that does not
 * exist. */
enum { KERNEL_PAGE = 4096 };
static inline bool kernel_can_read(uint64_t address)
{
    return kernel_call(SYS_rt_sigprocmask, ~0L, (long)(address & ~(uint64_t)(KERNEL_PAGE - 1)), 0, 8, 0, 0) ==
           -EINVAL;
}

/* The length of a text of the program, as far as it can be read: at most `most`. */
static inline uint64_t kernel_text_length(const char *text, uint64_t most)
{
    uint64_t n = 0;
    for (; n < most; n++) {
        const uint64_t at = (uint64_t)(text + n);
        if ((n == 0 || at % KERNEL_PAGE == 0) && !kernel_can_read(at))
            break;
        if (!text[n])
            break;
    }
    return n;
}

/* Read the beginning of a file as text, with a zero at its end. Returns its length; 0 also if it cannot be read. */
static inline size_t kernel_read_text(const char *path, char *to, size_t room)
{
    const long fd = kernel_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    const long n = fd >= 0 ? kernel_call(SYS_read, fd, (long)to, (long)room - 1, 0, 0, 0) : 0;
    if (fd >= 0)
        kernel_call(SYS_close, fd, 0, 0, 0, 0, 0);
    to[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

/* The address of this thread's control block, to which %fs points. */
static inline uint64_t kernel_thread(void)
{
    uint64_t address;
    __asm__("mov %%fs:0, %0" : "=r"(address));
    return address;
}

#endif
