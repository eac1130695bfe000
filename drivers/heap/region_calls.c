/* region_calls.c - decides for each memory call of an allocator whether the region or the kernel handles it.
 *
 * Private anonymous memory that is not executable comes from the region, and so does every call that names addresses
 * in it. Files, shared memory, executable memory and other addresses are left to the kernel. The requested protection
 * is ignored: the region is always readable and writable (mprotect is not captured).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/heap/reservation.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* Threads of the allocator may call at the same time. No function that is called with the lock waits for anything
 * or calls back. */
static atomic_flag s_held = ATOMIC_FLAG_INIT;

static void hold(void)
{
    while (atomic_flag_test_and_set_explicit(&s_held, memory_order_acquire))
        sched_yield();
}

static long release(long result)
{
    atomic_flag_clear_explicit(&s_held, memory_order_release);
    return result;
}

static struct region_refusal *s_refusal;
static uint64_t s_calls;

uint64_t region_calls(void)
{
    return __atomic_load_n(&s_calls, __ATOMIC_RELAXED);
}

static void count_call(void)
{
    if (region_captures())
        __atomic_fetch_add(&s_calls, 1, __ATOMIC_RELAXED);
}

void region_refuse(struct region_refusal *r)
{
    s_refusal = r;
}

/* Count a request for memory, with the lock held. True if it is the one to refuse. */
static bool is_refused(void)
{
    if (!s_refusal || ++s_refusal->requests != s_refusal->nth)
        return false;
    return s_refusal->refused = true;
}

static bool inside(const void *p)
{
    return region_captures() && (region_holds(p, 1) || reservation_contains(p));
}

static bool heap_memory(void *p, int prot, int flags, int fd)
{
    bool fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
    if (!(flags & MAP_ANONYMOUS) || fd >= 0 || !(flags & MAP_PRIVATE) || (prot & PROT_EXEC))
        return false;
    return region_captures() && (!fixed || inside(p));
}

static long map_in_heap(void *p, size_t length, int prot, int flags)
{
    bool gives_back = (flags & MAP_FIXED) && prot == PROT_NONE;
    if (!gives_back && is_refused())
        return -ENOMEM;
    if ((flags & MAP_FIXED) && reservation_contains(p))
        return prot == PROT_NONE ? region_unmap(p, length) ?: (long)p : region_use(p, length);
    if (prot == PROT_NONE && length > region_size())
        return region_reserve_more(length);
    return region_map(p, length, flags & MAP_FIXED);
}

long region_mmap_call(void *p, size_t length, int prot, int flags, int fd, long offset)
{
    if (heap_memory(p, prot, flags, fd))
        count_call();
    else
        return raw_syscall(SYS_mmap, (long)p, (long)length, prot, flags, fd, offset);
    hold();
    return release(map_in_heap(p, length, prot, flags));
}

long region_munmap_call(void *p, size_t length)
{
    if (inside(p)) {
        count_call();
        hold();
        return release(region_unmap(p, length));
    }
    return raw_syscall(SYS_munmap, (long)p, (long)length, 0, 0, 0, 0);
}

long region_mremap_call(void *p, size_t old_length, size_t length, int flags, void *target)
{
    if (!inside(p))
        return raw_syscall(SYS_mremap, (long)p, (long)old_length, (long)length, flags, (long)target, 0);
    if (flags & MREMAP_FIXED)
        return -EINVAL;
    count_call();
    hold();
    if (length > old_length && is_refused())
        return release(-ENOMEM);
    return release(region_remap(p, old_length, length, flags & MREMAP_MAYMOVE));
}

long region_madvise_call(void *p, size_t length, int advice)
{
    if (inside(p))
        count_call();
    return raw_syscall(SYS_madvise, (long)p, (long)length, advice, 0, 0, 0);
}

long region_brk_call(void *end)
{
    if (region_captures()) {
        count_call();
        hold();
        bool grows = (char *)end > (char *)region_break(NULL);
        return release(region_break(grows && is_refused() ? NULL : end));
    }
    return raw_syscall(SYS_brk, (long)end, 0, 0, 0, 0, 0);
}

/* -- system calls of allocators that make them directly --
 *
 * The malloc of the C library reaches the kernel without a symbol that could be replaced. A seccomp filter makes the
 * kernel raise SIGSYS instead of serving brk, mmap, munmap and mremap. The signal handler calls the region and stores
 * the result where the system call's result belongs. Only the instruction in raw_syscalls.c is allowed. The filter
 * cannot be removed, and children inherit it, so it is used only in the driver's process. madvise does no harm and is
 * left to the kernel. */

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
