/* lua_find.c - find the Lua states that a program has, in its memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel reads the memory (process_vm_readv), since other threads may unmap it at any time: a few bytes of each page.
 */
#include "ljtrace/native/inside/lua_find.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/writable.h"
#include "ljtrace/protocol/table.h"

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

/* Look at pages that follow one another. Returns how many could be read. */
static uint64_t look_at(const struct lua_find_shape *s, uint64_t first, uint64_t pages,
                        void (*found)(void *L, void *any), void *any)
{
    TABLE(uint8_t, bytes, PAGES * BYTES);
    TABLE(struct iovec, there, PAGES);
    struct iovec here = {bytes, pages * BYTES};
    for (uint64_t i = 0; i < pages; i++)
        there[i] = (struct iovec){(void *)(first + i * LUA_FIND_PAGE + s->place), BYTES};
    const long n = kernel_call(SYS_process_vm_readv, kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0), (long)&here,
                               1, (long)there, (long)pages, 0);
    const uint64_t got = n > 0 ? (uint64_t)n / BYTES : 0;
    for (uint64_t i = 0; i < got; i++)
        if (looks_like_state(s, (uint64_t)there[i].iov_base, bytes + i * BYTES))
            found(there[i].iov_base, any);
    return got;
}

void lua_find(const struct lua_find_shape *s, void (*found)(void *L, void *any), void *any)
{
    uint32_t n = 0;
    const struct writable_range *range = writable_read() ? writable_ranges(&n) : NULL;
    if (s->gct >= BYTES || s->global + s->ref > BYTES || s->place + BYTES > LUA_FIND_PAGE)
        return;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t page = range[i].from; page < range[i].to;) {
            const uint64_t left = (range[i].to - page) / LUA_FIND_PAGE;
            const uint64_t got = look_at(s, page, left < PAGES ? left : PAGES, found, any);
            page += (got ? got : 1) * LUA_FIND_PAGE; /* one that cannot be read is passed over */
        }
}
