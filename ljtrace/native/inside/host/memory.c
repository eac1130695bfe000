/* memory.c - memory for the reader of LuaJIT, and which memory of the program it may read (ljtrace/luajit/host.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The program's malloc is what is recorded, so memory comes from mmap. Blocks have sizes that are powers of two; a freed
 * one is kept in a list of its size. Only used with the ring's lock held (ljtrace/native/inside/native.h). The callers rely on
 * memory. If the kernel refuses it, because the program has a limit, they get a reserve, and the recording ends.
 *
 * The kernel is asked for each page whether it is readable. Memory may be unmapped at any time. What LuaJIT itself still
 * uses does not vanish; a pointer that is only a guess has to be announced by lt_guest_doubt.
 */
#include "ljtrace/native/inside/host/memory.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/native.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { LEAST_BITS = 5, MOST_BITS = 40, CHUNK = 1 << 20 };

/* Precedes a block. */
struct head {
    uint64_t bits; /* the block with its head has 2^bits bytes */
    struct head *next;
};

static struct head *s_free[MOST_BITS];
static uint8_t *s_chunk, *s_chunk_end;
static void *s_reserve; /* of CHUNK bytes */

static uint32_t bits_for(size_t n)
{
    uint32_t bits = LEAST_BITS;
    while (((size_t)1 << bits) < n + sizeof(struct head))
        bits++;
    return bits;
}

static void *try_map(size_t n)
{
    long at = kernel_call(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at > 0 ? (void *)at : NULL;
}

bool host_memory_reserve(void)
{
    if (!s_reserve)
        s_reserve = try_map(CHUNK);
    return s_reserve != NULL;
}

static void *map(size_t n)
{
    void *at = try_map(n);
    if (at)
        return at;
    native_ring_starve();
    at = n <= CHUNK ? s_reserve : NULL;
    s_reserve = NULL;
    host_assert(at);
    return at;
}

/* Memory that no block has used. */
static struct head *fresh(size_t n)
{
    if (n >= CHUNK)
        return map(n);
    if ((size_t)(s_chunk_end - s_chunk) < n) {
        s_chunk = map(CHUNK);
        s_chunk_end = s_chunk + CHUNK;
    }
    s_chunk += n;
    return (struct head *)(s_chunk - n);
}

/* The contents are not defined. */
static void *get(size_t n)
{
    uint32_t bits = bits_for(n);
    struct head *h = s_free[bits];
    if (h)
        s_free[bits] = h->next;
    else
        h = fresh((size_t)1 << bits);
    h->bits = bits;
    return h + 1;
}

void host_free(void *p)
{
    struct head *h = (struct head *)p - 1;
    if (!p)
        return;
    h->next = s_free[h->bits];
    s_free[h->bits] = h;
}

void *host_new(size_t n)
{
    return memset(get(n), 0, n);
}

void *host_resize(void *p, size_t n)
{
    const size_t had = p ? ((size_t)1 << ((struct head *)p - 1)->bits) - sizeof(struct head) : 0;
    if (had >= n)
        return p;
    void *to = get(n);
    if (p)
        memcpy(to, p, had);
    host_free(p);
    return to;
}

/* -- memory of the program -- */

const bool host_mappings_are_known = false;

bool host_readable(uint64_t a, size_t n, uint64_t *from, uint64_t *to)
{
    *from = a & ~(uint64_t)(KERNEL_PAGE - 1);
    *to = (a + n + KERNEL_PAGE - 1) & ~(uint64_t)(KERNEL_PAGE - 1);
    if (a >> 47)
        return false;
    for (uint64_t page = *from; page < *to; page += KERNEL_PAGE)
        if (!kernel_can_read(page))
            return false;
    return true;
}
