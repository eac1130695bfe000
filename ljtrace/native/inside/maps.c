/* maps.c - the functions of libc that map memory: they are called, and what the program mapped by them is recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Only calls by name from outside of libc come here. What libc maps itself, for malloc or the stacks of threads, does not, nor
 * does what the program maps by the instruction for system calls. Without --pages nothing is recorded. Calls of this library
 * itself come here too, as it is linked so; they are not the program's.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/maps.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/session.h"
#include "ljtrace/protocol/kernel.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

/* The linker defines the beginning and the end of this library's code. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static const char *const s_names[] = {"mmap", "mmap64", "munmap", "mremap", "sbrk", "brk", "shmat", "shmdt"};

/* NULL = it is not known yet: then the system call is made; libc has to know of changes of the break. */
static struct {
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
    void *(*sbrk)(intptr_t);
    int (*brk)(void *);
    void *(*shmat)(int, const void *, int);
    int (*shmdt)(const void *);
} s_real;

void maps_begin(void)
{
    s_real.mmap = (void *(*)(void *, size_t, int, int, int, off_t))native_next("mmap");
    s_real.munmap = (int (*)(void *, size_t))native_next("munmap");
    s_real.mremap = (void *(*)(void *, size_t, size_t, int, ...))native_next("mremap");
    s_real.sbrk = (void *(*)(intptr_t))native_next("sbrk");
    s_real.brk = (int (*)(void *))native_next("brk");
    s_real.shmat = (void *(*)(int, const void *, int))native_next("shmat");
    s_real.shmdt = (int (*)(const void *))native_next("shmdt");
}

bool maps_needs(const char *name)
{
    for (size_t i = 0; !native_options.pages && i < sizeof s_names / sizeof *s_names; i++)
        if (strcmp(name, s_names[i]) == 0)
            return false;
    return true;
}

/* The result of a system call, as libc returns it. */
static long result_of(long result)
{
    if (result >= 0 || result <= -KERNEL_PAGE)
        return result;
    errno = (int)-result;
    return -1;
}

/* Does the function in which this is used, whose caller is there, record? */
static bool records(const void *caller)
{
    const bool is_own = (const char *)caller >= __ehdr_start && (const char *)caller < etext;
    return !is_own && native_is_on() && native_options.pages;
}
#define RECORDS __builtin_expect(records(__builtin_return_address(0)), 0)

#define RECORD(what, addr_, size_)                                                                           \
    do {                                                                                                     \
        const struct native_registers here = NATIVE_HERE;                                                    \
        native_record(                                                                                       \
            &(struct native_event){NATIVE_REGION, .how = what, .addr = (uint64_t)(addr_), .size = size_},    \
            &here);                                                                                          \
    } while (0)

NATIVE_PUBLIC void *mmap(void *at, size_t size, int rights, int flags, int fd, off_t offset)
{
    void *p = s_real.mmap
                  ? s_real.mmap(at, size, rights, flags, fd, offset)
                  : (void *)result_of(kernel_call(SYS_mmap, (long)at, (long)size, rights, flags, fd, offset));
    if (p != MAP_FAILED && RECORDS)
        RECORD(RAW_REGION_MAPPED, p, size);
    return p;
}

NATIVE_PUBLIC void *mmap64(void *at, size_t size, int rights, int flags, int fd, off64_t offset)
    __attribute__((alias("mmap")));

/* An end is recorded first: another thread may get the addresses at once. */
NATIVE_PUBLIC int munmap(void *at, size_t size)
{
    if (RECORDS)
        RECORD(RAW_REGION_UNMAPPED, at, (size + KERNEL_PAGE - 1) & ~(size_t)(KERNEL_PAGE - 1));
    return s_real.munmap ? s_real.munmap(at, size)
                         : (int)result_of(kernel_call(SYS_munmap, (long)at, (long)size, 0, 0, 0, 0));
}

/* It may fail, so that its end is recorded only when it has not. */
NATIVE_PUBLIC void *mremap(void *at, size_t before, size_t size, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
    va_end(rest);
    void *p = s_real.mremap ? s_real.mremap(at, before, size, flags, to)
                            : (void *)result_of(kernel_call(SYS_mremap, (long)at, (long)before, (long)size,
                                                            flags, (long)to, 0));
    if (p != MAP_FAILED && RECORDS) {
        if (!(flags & MREMAP_DONTUNMAP))
            RECORD(RAW_REGION_UNMAPPED, at, before);
        RECORD(RAW_REGION_MAPPED, p, size);
    }
    return p;
}

/* The program has moved its break. */
#define RECORD_BREAK(from, to)                                                                               \
    if ((const char *)(to) > (from))                                                                         \
        RECORD(RAW_REGION_MAPPED, from, (size_t)((const char *)(to) - (from)));                              \
    else                                                                                                     \
        RECORD(RAW_REGION_UNMAPPED, to, (size_t)((from) - (const char *)(to)))

NATIVE_PUBLIC void *sbrk(intptr_t change)
{
    if (!s_real.sbrk)
        maps_begin();
    char *from = s_real.sbrk(change);
    if (from != (char *)-1 && change && RECORDS) {
        RECORD_BREAK(from, from + change);
    }
    return from;
}

NATIVE_PUBLIC int brk(void *to)
{
    const char *from = (const char *)kernel_call(SYS_brk, 0, 0, 0, 0, 0, 0);
    if (!s_real.brk)
        maps_begin();
    const int result = s_real.brk(to);
    if (result == 0 && to != from && RECORDS) {
        RECORD_BREAK(from, to);
    }
    return result;
}

NATIVE_PUBLIC void *shmat(int id, const void *at, int flags)
{
    struct shmid_ds segment;
    void *p = s_real.shmat ? s_real.shmat(id, at, flags)
                           : (void *)result_of(kernel_call(SYS_shmat, id, (long)at, flags, 0, 0, 0));
    if (p != (void *)-1 && RECORDS && kernel_call(SYS_shmctl, id, IPC_STAT, (long)&segment, 0, 0, 0) == 0)
        RECORD(RAW_REGION_MAPPED, p, segment.shm_segsz);
    return p;
}

NATIVE_PUBLIC int shmdt(const void *at)
{
    if (RECORDS)
        RECORD(RAW_REGION_DETACHED, at, 0);
    return s_real.shmdt ? s_real.shmdt(at) : (int)result_of(kernel_call(SYS_shmdt, (long)at, 0, 0, 0, 0, 0));
}

void maps_look(const char *name, unsigned bytes)
{
    if (!native_options.pages || native_is_sandboxed())
        return;
    NATIVE_PUT(pages, .end = !name, .instructions = native_now(), .name = {name ? name : "", bytes});
    native_ring_drain();
}
