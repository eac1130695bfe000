/* sandbox.c - executes a seccomp filter for each system call that the recorder makes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A filter is a program of classic BPF. It gets the number and the arguments of a system call and returns an action. It has
 * no state, so its result is the kernel's. Arguments that are addresses are 0 here: filters cannot follow pointers.
 *
 * Most calls may fail, and the recorder does without their results. So for them an error is as good as permission, but not
 * an action that ends the program, sends it a signal or stops it. Without `futex` and `mmap` events would be missing.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/sandbox.h"
#include "ljtrace/protocol/kernel.h"

#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

/* A system call of the recorder. */
struct need {
    const char *name;
    int number;
    uint32_t uses;
    bool is_essential;
    uint64_t args[6];
};
#define NEED(name, uses, ...)                                                                                \
    {                                                                                                        \
#name, SYS_##name, uses, false,                                                                      \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define ESSENTIAL(name, uses, ...)                                                                           \
    {                                                                                                        \
#name, SYS_##name, uses, true,                                                                       \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define ANY_FD 1000

static const struct need s_needs[] = {
    ESSENTIAL(futex, SANDBOX_RECORD, 0, FUTEX_WAKE, 1),
    ESSENTIAL(futex, SANDBOX_RECORD, 0, FUTEX_WAIT, 1),
    ESSENTIAL(futex, SANDBOX_RECORD, 0, FUTEX_WAKE_PRIVATE, 1),
    ESSENTIAL(futex, SANDBOX_RECORD, 0, FUTEX_WAIT_PRIVATE, 2),
    ESSENTIAL(mmap, SANDBOX_RECORD, 0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
              (uint64_t)-1),
    ESSENTIAL(mmap, SANDBOX_RECORD, 0, 1 << 20, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1),
    NEED(munmap, SANDBOX_RECORD, 0, 4096),
    NEED(sigaltstack, SANDBOX_RECORD, 0),
    NEED(getpid, SANDBOX_RECORD, 0),
    NEED(gettid, SANDBOX_RECORD, 0),
    NEED(readlink, SANDBOX_RECORD, 0),
    NEED(prctl, SANDBOX_RECORD, PR_GET_NAME),
    NEED(rt_sigprocmask, SANDBOX_RECORD, (uint64_t)-1, 0, 0, 8),
    NEED(clock_gettime, SANDBOX_RECORD, CLOCK_MONOTONIC),
    NEED(write, SANDBOX_RECORD, 2),
    NEED(clock_gettime, SANDBOX_SAMPLE, CLOCK_THREAD_CPUTIME_ID),
    NEED(rt_sigreturn, SANDBOX_SAMPLE, 0),
    NEED(timer_create, SANDBOX_SAMPLE, CLOCK_THREAD_CPUTIME_ID),
    NEED(timer_settime, SANDBOX_SAMPLE, 0),
    NEED(timer_delete, SANDBOX_SAMPLE, 0),
    NEED(getdents64, SANDBOX_ATTACH, ANY_FD),
    NEED(socket, SANDBOX_FORK | SANDBOX_ATTACH, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC),
    NEED(connect, SANDBOX_FORK | SANDBOX_ATTACH, ANY_FD),
    NEED(mmap, SANDBOX_FORK | SANDBOX_ATTACH, 0, 1 << 25, PROT_READ | PROT_WRITE, MAP_SHARED, ANY_FD),
    NEED(madvise, SANDBOX_FORK | SANDBOX_ATTACH, 0, 4096, MADV_WIPEONFORK),
    NEED(recvfrom, SANDBOX_FORK, ANY_FD),
    NEED(close, SANDBOX_FORK | SANDBOX_DETACH | SANDBOX_ATTACH | SANDBOX_PATCH, ANY_FD),
    NEED(madvise, SANDBOX_DETACH | SANDBOX_ATTACH, 0, 4096, MADV_DONTNEED),
    NEED(open, SANDBOX_DETACH | SANDBOX_ATTACH, 0),
    NEED(read, SANDBOX_DETACH | SANDBOX_ATTACH | SANDBOX_PATCH, ANY_FD),
    NEED(mprotect, SANDBOX_DETACH | SANDBOX_ATTACH, 0, 4096, PROT_READ | PROT_WRITE),
    NEED(mprotect, SANDBOX_ATTACH | SANDBOX_PATCH, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC),
    NEED(mprotect, SANDBOX_PATCH, 0, 4096, PROT_READ | PROT_EXEC),
    NEED(mmap, SANDBOX_PATCH, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1),
    NEED(openat, SANDBOX_ATTACH | SANDBOX_PATCH, (uint64_t)-100, 0),
    NEED(newfstatat, SANDBOX_ATTACH, ANY_FD),
    NEED(pread64, SANDBOX_ATTACH | SANDBOX_PATCH, ANY_FD),
    NEED(mmap, SANDBOX_ATTACH, 0, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, ANY_FD),
    NEED(mmap, SANDBOX_ATTACH, 0, 1 << 20, PROT_READ, MAP_PRIVATE, ANY_FD),
    NEED(recvmsg, SANDBOX_FORK | SANDBOX_ATTACH, ANY_FD),
    NEED(getsockopt, SANDBOX_ATTACH, ANY_FD),
    NEED(geteuid, SANDBOX_ATTACH, 0),
    NEED(getrandom, SANDBOX_ATTACH, 0),
    NEED(brk, SANDBOX_ATTACH, 0),
    NEED(process_vm_readv, SANDBOX_DETACH | SANDBOX_ATTACH, ANY_FD),
    NEED(rt_sigaction, SANDBOX_ATTACH, 64),
};

/* -- filters -- */

/* The machine of classic BPF. */
struct machine {
    uint32_t a, x;
    uint32_t memory[BPF_MEMWORDS];
};

static uint32_t arithmetic(uint16_t code, uint32_t a, uint32_t b)
{
    switch (BPF_OP(code)) {
    case BPF_ADD:
        return a + b;
    case BPF_SUB:
        return a - b;
    case BPF_MUL:
        return a * b;
    case BPF_DIV:
        return b ? a / b : 0;
    case BPF_OR:
        return a | b;
    case BPF_AND:
        return a & b;
    case BPF_XOR:
        return a ^ b;
    case BPF_LSH:
        return b < 32 ? a << b : 0;
    case BPF_RSH:
        return b < 32 ? a >> b : 0;
    default:
        return 0 - a; /* BPF_NEG */
    }
}

static bool jumps(uint16_t code, uint32_t a, uint32_t b)
{
    switch (BPF_OP(code)) {
    case BPF_JEQ:
        return a == b;
    case BPF_JGT:
        return a > b;
    case BPF_JGE:
        return a >= b;
    default:
        return a & b; /* BPF_JSET */
    }
}

/* The word that a load instruction loads. */
static uint32_t loaded(const struct machine *m, const struct sock_filter *i, const struct seccomp_data *data)
{
    uint32_t word = 0;
    switch (BPF_MODE(i->code)) {
    case BPF_IMM:
        return i->k;
    case BPF_MEM:
        return i->k < BPF_MEMWORDS ? m->memory[i->k] : 0;
    case BPF_ABS:
        if (i->k <= sizeof *data - sizeof word)
            memcpy(&word, (const char *)data + i->k, sizeof word);
        return word;
    default:
        return sizeof *data; /* BPF_LEN */
    }
}

/* The action for a system call. A filter that the kernel would refuse kills. */
static uint32_t action(const struct sock_filter *filter, size_t n, const struct seccomp_data *data)
{
    struct machine m = {0};
    for (size_t at = 0; at < n; at++) {
        const struct sock_filter *i = &filter[at];
        const uint32_t operand = BPF_SRC(i->code) == BPF_X ? m.x : i->k;
        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
            m.a = loaded(&m, i, data);
            break;
        case BPF_LDX:
            m.x = loaded(&m, i, data);
            break;
        case BPF_ST:
        case BPF_STX:
            if (i->k < BPF_MEMWORDS)
                m.memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m.a : m.x;
            break;
        case BPF_ALU:
            m.a = arithmetic(i->code, m.a, operand);
            break;
        case BPF_JMP:
            at += BPF_OP(i->code) == BPF_JA ? i->k : jumps(i->code, m.a, operand) ? i->jt : i->jf;
            break;
        case BPF_RET:
            return (BPF_RVAL(i->code) == BPF_A ? m.a : i->k) & SECCOMP_RET_ACTION_FULL;
        default: /* BPF_MISC */
            if (BPF_MISCOP(i->code) == BPF_TAX)
                m.x = m.a;
            else
                m.a = m.x;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}

static bool permits(const struct need *need, const struct sock_filter *filter, size_t n)
{
    struct seccomp_data data = {.nr = need->number, .arch = AUDIT_ARCH_X86_64};
    memcpy(data.args, need->args, sizeof data.args);
    const uint32_t found = action(filter, n, &data);
    return found == SECCOMP_RET_ALLOW || found == SECCOMP_RET_LOG ||
           (found == SECCOMP_RET_ERRNO && !need->is_essential);
}

const char *sandbox_denies(const struct sock_filter *filter, size_t n, uint32_t uses)
{
    for (size_t i = 0; i < sizeof s_needs / sizeof *s_needs; i++)
        if ((s_needs[i].uses & uses) && !permits(&s_needs[i], filter, n))
            return s_needs[i].name;
    return NULL;
}

/* Addresses are 0 and descriptors do not exist, so that most calls fail; but a filter comes first. */
bool sandbox_try(uint32_t uses)
{
    bool permitted = true;
    for (size_t i = 0; i < sizeof s_needs / sizeof *s_needs; i++) {
        const struct need *n = &s_needs[i];
        if (!(n->uses & uses) || n->number == SYS_rt_sigreturn)
            continue;
        const long result = kernel_call(n->number, (long)n->args[0], (long)n->args[1], (long)n->args[2],
                                        (long)n->args[3], (long)n->args[4], (long)n->args[5]);
        permitted &= !n->is_essential || (result != -EPERM && result != -EACCES && result != -ENOSYS);
    }
    return permitted;
}
