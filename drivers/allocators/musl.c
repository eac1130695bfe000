/* musl.c - driver for musl's malloc (mallocng), from the static libc.a of Debian's musl-dev.
 *
 * The objects of its malloc and its memory calls are linked unchanged. The other functions that they need are defined
 * here, because two complete C libraries in one process would both use the thread's control block. They make system
 * calls directly, which are captured. musl stores a secret in its chunks. It is constant here, so that runs are
 * repeatable. The process has one thread, for which musl uses no locks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <elf.h>

/* musl's entry points, in its archive */
void *__libc_malloc_impl(size_t size);
void __libc_free(void *p);
void *__libc_realloc(void *p, size_t size);
size_t malloc_usable_size(void *p);

#define FORWARD_MALLOC __libc_malloc_impl
#define FORWARD_FREE __libc_free
#define FORWARD_REALLOC __libc_realloc
#define FORWARD_USABLE malloc_usable_size
#include "drivers/allocators/forward.h"

static const unsigned char s_secret[16] = "steve-replay   ";
static const size_t s_auxv[] = {AT_RANDOM, (size_t)s_secret, 0, 0};

/* musl's description of the process. malloc reads only the flags (no threads) and auxv. */
struct musl_process {
    char flags[8];
    const size_t *auxv;
    char rest[112];
};
struct musl_process __libc = {.auxv = s_auxv};

/* Where musl's functions store error numbers, which are not used. */
int *___errno_location(void)
{
    static int unread;
    return &unread;
}

void __lock(volatile int *lock)
{
}

void __unlock(volatile int *lock)
{
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "musl",
    .description = "musl's malloc (mallocng) with its default settings (Debian: musl-dev)",
    .confinement = STEVE_BY_SYSCALLS,
    .least_heap = (size_t)512 << 10,
    .init = forward_first_block_in_heap,
    FORWARDED,
};
