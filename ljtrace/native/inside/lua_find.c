/* lua_find.c - find the Lua states that a program has, in its memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel reads the memory (process_vm_readv), since other threads may unmap it at any time: a few bytes of each page that
 * the program has used.
 */
#include "ljtrace/native/inside/lua_find.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/writable.h"
#include "ljtrace/protocol/table.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { GCT_THREAD = 6, PAGES = 128, BYTES = 32 };

static uint64_t number_at(const uint8_t *from, uint32_t bytes)
{
    uint64_t number = 0;
    memcpy(&number, from, bytes);
    return number;
}

static bool looks_like_state(const struct lua_find_shape *s, uint64_t L, const uint8_t *bytes)
{
    return bytes[s->gct] == GCT_THREAD && number_at(bytes + s->global, s->ref) == L + s->thread_size;
}

/* The pages from `first` that were ever written or read, as addresses in `there`: the others have no state, and to read one
 * makes the kernel add a page to the process. Returns their number; all of them if that is not known. pagemap:
 * /proc/self/pagemap, which has a number for each page; below 0 if it cannot be opened. */
static uint64_t used_pages(long pagemap, uint64_t first, uint64_t pages, uint64_t place, struct iovec *there)
{
    TABLE(uint64_t, entries, PAGES);
    const uint64_t in_memory = 1ULL << 63, is_swapped = 1ULL << 62;
    const long size = (long)(pages * sizeof *entries);
    const bool known =
        pagemap >= 0 && kernel_call(SYS_pread64, pagemap, (long)entries, size,
                                    (long)(first / LUA_FIND_PAGE * sizeof *entries), 0, 0) == size;
    uint64_t n = 0;
    for (uint64_t i = 0; i < pages; i++)
        if (!known || (entries[i] & (in_memory | is_swapped)))
            there[n++] = (struct iovec){(void *)(first + i * LUA_FIND_PAGE + place), BYTES};
    return n;
}

/* Look at pages that follow one another. Returns how many of them need no further look. */
static uint64_t look_at(const struct lua_find_shape *s, long pagemap, uint64_t first, uint64_t pages,
                        void (*found)(void *L, void *any), void *any)
{
    TABLE(uint8_t, bytes, PAGES * BYTES);
    TABLE(struct iovec, there, PAGES);
    const uint64_t used = used_pages(pagemap, first, pages, s->place, there);
    struct iovec here = {bytes, used * BYTES};
    const long n = used ? kernel_call(SYS_process_vm_readv, kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0),
                                      (long)&here, 1, (long)there, (long)used, 0)
                        : 0;
    const uint64_t got = n > 0 ? (uint64_t)n / BYTES : 0;
    for (uint64_t i = 0; i < got; i++)
        if (looks_like_state(s, (uint64_t)there[i].iov_base, bytes + i * BYTES))
            found(there[i].iov_base, any);
    if (got == used)
        return pages;
    const uint64_t unreadable = (uint64_t)there[got].iov_base - first;
    return unreadable / LUA_FIND_PAGE + 1;
}

void lua_find(const struct lua_find_shape *s, void (*found)(void *L, void *any), void *any)
{
    uint32_t n = 0;
    const struct writable_range *range = writable_read() ? writable_ranges(&n) : NULL;
    if (s->gct >= BYTES || s->global + s->ref > BYTES || s->place + BYTES > LUA_FIND_PAGE)
        return;
    const long pagemap =
        kernel_call(SYS_openat, AT_FDCWD, (long)"/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t page = range[i].from; page < range[i].to;) {
            const uint64_t left = (range[i].to - page) / LUA_FIND_PAGE;
            page += look_at(s, pagemap, page, left < PAGES ? left : PAGES, found, any) * LUA_FIND_PAGE;
        }
    if (pagemap >= 0)
        kernel_call(SYS_close, pagemap, 0, 0, 0, 0, 0);
}
