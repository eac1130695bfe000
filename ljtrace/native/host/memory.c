/* memory.c - Valgrind's malloc for the code that is shared with the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The program's malloc is what is recorded, so memory comes from mmap. Blocks have sizes that are powers of two; a freed
 * one is kept in a list of its size. Only used with the ring's lock held (ljtrace/native/inside/native.h). The callers rely on
 * memory. If the kernel refuses it, because the program has a limit, they get a reserve, and the recording ends.
 */
#include "ljtrace/native/host/memory.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/kernel.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include <sys/mman.h>
#include <sys/syscall.h>

enum { LEAST_BITS = 5, MOST_BITS = 40, CHUNK = 1 << 20 };

/* Precedes a block. */
struct head {
    UWord bits; /* the block with its head has 2^bits bytes */
    struct head *next;
};

static struct head *s_free[MOST_BITS];
static UChar *s_chunk, *s_chunk_end;
static void *s_reserve; /* of CHUNK bytes */

static UInt bits_for(SizeT n)
{
    UInt bits = LEAST_BITS;
    while (((SizeT)1 << bits) < n + sizeof(struct head))
        bits++;
    return bits;
}

static void *try_map(SizeT n)
{
    long at = kernel_call(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at > 0 ? (void *)at : NULL;
}

Bool host_memory_reserve(void)
{
    if (!s_reserve)
        s_reserve = try_map(CHUNK);
    return s_reserve != NULL;
}

static void *map(SizeT n)
{
    void *at = try_map(n);
    if (at)
        return at;
    native_ring_starve();
    at = n <= CHUNK ? s_reserve : NULL;
    s_reserve = NULL;
    tl_assert2(at, "no memory");
    return at;
}

/* Memory that no block has used. */
static struct head *fresh(SizeT n)
{
    if (n >= CHUNK)
        return map(n);
    if ((SizeT)(s_chunk_end - s_chunk) < n) {
        s_chunk = map(CHUNK);
        s_chunk_end = s_chunk + CHUNK;
    }
    s_chunk += n;
    return (struct head *)(s_chunk - n);
}

void *VG_(malloc)(const HChar *name, SizeT n)
{
    UInt bits = bits_for(n);
    struct head *h = s_free[bits];
    (void)name;
    if (h)
        s_free[bits] = h->next;
    else
        h = fresh((SizeT)1 << bits);
    h->bits = bits;
    return h + 1;
}

void VG_(free)(void *p)
{
    struct head *h = (struct head *)p - 1;
    if (!p)
        return;
    h->next = s_free[h->bits];
    s_free[h->bits] = h;
}

void *VG_(calloc)(const HChar *name, SizeT n, SizeT size)
{
    return VG_(memset)(VG_(malloc)(name, n * size), 0, n * size);
}

void *VG_(realloc)(const HChar *name, void *p, SizeT n)
{
    SizeT had = p ? ((SizeT)1 << ((struct head *)p - 1)->bits) - sizeof(struct head) : 0;
    if (had >= n)
        return p;
    void *to = VG_(malloc)(name, n);
    VG_(memcpy)(to, p, had);
    VG_(free)(p);
    return to;
}

HChar *VG_(strdup)(const HChar *name, const HChar *s)
{
    SizeT n = VG_(strlen)(s) + 1;
    return VG_(memcpy)(VG_(malloc)(name, n), s, n);
}
