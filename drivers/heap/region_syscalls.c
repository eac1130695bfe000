/* region_syscalls.c - captures the memory system calls of an allocator that makes them directly.
 *
 * The malloc of the C library reaches the kernel without a symbol that could be replaced. A seccomp filter makes the
 * kernel raise SIGSYS instead of serving brk, mmap, munmap and mremap. The signal handler calls the region and stores
 * the result where the system call's result belongs. Only the instruction in raw_syscalls.c is allowed. The filter
 * cannot be removed, and children inherit it, so it is used only in the driver's process. madvise does no harm and is
 * left to the kernel.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

extern void *__curbrk; /* the C library's own copy of the break, which it exports */

static long answer(long number, const greg_t *g)
{
    void *p = (void *)g[REG_RDI];
    size_t length = (size_t)g[REG_RSI];
    switch (number) {
    case SYS_mmap:
        return region_mmap_call(p, length, (int)g[REG_RDX], (int)g[REG_R10], (int)g[REG_R8], g[REG_R9]);
    case SYS_munmap:
        return region_munmap_call(p, length);
    case SYS_mremap:
        return region_mremap_call(p, length, (size_t)g[REG_RDX], (int)g[REG_R10], (void *)g[REG_R8]);
    default:
        return region_brk_call(p);
    }
}

static void on_sigsys(int signal, siginfo_t *info, void *context)
{
    ucontext_t *c = context;
    c->uc_mcontext.gregs[REG_RAX] = answer(info->si_syscall, c->uc_mcontext.gregs);
}

#define FIELD(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define HALF(name, n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name) + 4 * (n))
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))

static bool install_filter(void)
{
    uint64_t ours = (uint64_t)(uintptr_t)raw_return_address;
    struct sock_filter program[] = {
        FIELD(arch),
        EQUAL(AUDIT_ARCH_X86_64, 0, 9),
        FIELD(nr),
        EQUAL(SYS_brk, 3, 0),
        EQUAL(SYS_mmap, 2, 0),
        EQUAL(SYS_munmap, 1, 0),
        EQUAL(SYS_mremap, 0, 4),
        HALF(instruction_pointer, 0),
        EQUAL((uint32_t)ours, 0, 3),
        HALF(instruction_pointer, 1),
        EQUAL((uint32_t)(ours >> 32), 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
    };
    struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

bool region_trap_syscalls(void)
{
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSYS, &action, NULL) != 0 || !install_filter())
        return false;
    if (region_base())
        __curbrk = region_base();
    return true;
}
