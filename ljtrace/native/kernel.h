/* kernel.h - system calls without libc, which would change errno.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_KERNEL_H
#define LJTRACE_NATIVE_KERNEL_H

#include <stdint.h>

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

/* The address of this thread's control block, to which %fs points. */
static inline uint64_t kernel_thread(void)
{
    uint64_t address;
    __asm__("mov %%fs:0, %0" : "=r"(address));
    return address;
}

#endif
