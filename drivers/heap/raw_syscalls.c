/* raw_syscalls.c - memory system calls without the C library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/raw_syscalls.h"

#include <sys/mman.h>
#include <sys/syscall.h>

/* In assembly, so that there is exactly one system call instruction, at an address with a name. */
__asm__(".text\n"
        ".globl raw_syscall\n"
        ".type raw_syscall, @function\n"
        "raw_syscall:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        ".globl raw_return_address\n"
        "raw_return_address:\n"
        "    ret\n"
        ".size raw_syscall, . - raw_syscall\n");

enum { PROT = PROT_READ | PROT_WRITE, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

static size_t s_total;

static size_t whole_pages(size_t size)
{
    return ((size ? size : 1) + 4095) / 4096 * 4096;
}

static void *map(void *where, size_t size, int flags)
{
    long r = raw_syscall(SYS_mmap, (long)where, (long)size, PROT, flags, -1, 0);
    return raw_failed(r) ? NULL : (void *)r;
}

void *raw_map(size_t size)
{
    void *p = map(NULL, size ? size : 1, FLAGS);
    s_total += p ? whole_pages(size) : 0;
    return p;
}

void *raw_map_unshared(size_t size)
{
    void *p = raw_map(size);
    if (p) /* if it fails, forks only take longer */
        raw_syscall(SYS_madvise, (long)p, (long)(size ? size : 1), MADV_DONTFORK, 0, 0, 0);
    return p;
}

void *raw_map_at(void *where, size_t size)
{
    void *p = map(where, size, FLAGS | MAP_FIXED_NOREPLACE);
    s_total += p ? whole_pages(size) : 0;
    if (p && p != where) {
        raw_unmap(p, size);
        return NULL;
    }
    return p;
}

void raw_unmap(void *p, size_t size)
{
    if (!p)
        return;
    raw_syscall(SYS_munmap, (long)p, (long)(size ? size : 1), 0, 0, 0, 0);
    s_total -= whole_pages(size);
}

void *raw_remap(void *p, size_t old_size, size_t size)
{
    if (!p)
        return raw_map(size);
    long r = raw_syscall(SYS_mremap, (long)p, (long)old_size, (long)size, MREMAP_MAYMOVE, 0, 0);
    if (raw_failed(r))
        return NULL;
    s_total += whole_pages(size) - whole_pages(old_size);
    return (void *)r;
}

size_t raw_mapped(void)
{
    return s_total;
}

void raw_renew(void *p, size_t size)
{
    if (size)
        map(p, size, FLAGS | MAP_FIXED);
}
