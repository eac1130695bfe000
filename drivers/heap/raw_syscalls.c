/* raw_syscalls.c - the kernel's memory calls, made directly; see raw_syscalls.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/raw_syscalls.h"

#include <sys/mman.h>
#include <sys/syscall.h>

/* Written out so that there is exactly one instruction, at an address with a name. */
__asm__(".text\n"
        ".globl sysmem_call\n"
        ".type sysmem_call, @function\n"
        "sysmem_call:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        ".globl sysmem_return_address\n"
        "sysmem_return_address:\n"
        "    ret\n"
        ".size sysmem_call, . - sysmem_call\n");

enum { PROT = PROT_READ | PROT_WRITE, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

static size_t s_total;

static size_t whole_pages(size_t size)
{
    return ((size ? size : 1) + 4095) / 4096 * 4096;
}

static void *map(void *where, size_t size, int flags)
{
    long r = sysmem_call(SYS_mmap, (long)where, (long)size, PROT, flags, -1, 0);
    return sysmem_failed(r) ? NULL : (void *)r;
}

void *sysmem_get(size_t size)
{
    void *p = map(NULL, size ? size : 1, FLAGS);
    s_total += p ? whole_pages(size) : 0;
    return p;
}

void *sysmem_get_at(void *where, size_t size)
{
    void *p = map(where, size, FLAGS | MAP_FIXED_NOREPLACE);
    s_total += p ? whole_pages(size) : 0;
    if (p && p != where) {
        sysmem_release(p, size);
        return NULL;
    }
    return p;
}

void sysmem_release(void *p, size_t size)
{
    if (!p)
        return;
    sysmem_call(SYS_munmap, (long)p, (long)(size ? size : 1), 0, 0, 0, 0);
    s_total -= whole_pages(size);
}

void *sysmem_grow(void *p, size_t old_size, size_t size)
{
    if (!p)
        return sysmem_get(size);
    long r = sysmem_call(SYS_mremap, (long)p, (long)old_size, (long)size, MREMAP_MAYMOVE, 0, 0);
    if (sysmem_failed(r))
        return NULL;
    s_total += whole_pages(size) - whole_pages(old_size);
    return (void *)r;
}

size_t sysmem_total(void)
{
    return s_total;
}

void sysmem_renew(void *p, size_t size)
{
    if (size)
        map(p, size, FLAGS | MAP_FIXED);
}
