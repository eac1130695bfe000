/* pools.c - requests about custom allocators. (see pools.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each pool is a heap of its own, identified by its anchor address. All blocks without a pool
 * (MALLOCLIKE_BLOCK) are one heap. Only the set of pools is kept here; the collector knows their blocks, and
 * the blocks that a pool's memory came from. What the allocator of a Lua state declares is its raw material,
 * as is what it gets from the C heap. Red zones and "is zeroed" have no meaning for a recorder.
 */
#include "ljtrace/ljtrace.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/heaps/malloc.h"
#include "ljtrace/valgrind/heaps/pools.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/memtrace.h"
#include "pub_tool_clreq.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"

enum { POOL_NAME_BYTES = 1000 };

struct pool {
    struct pool *next;
    UWord anchor; /* the number of its heap in the ring */
};

static VgHashTable *s_pools;

/* The number of a pool in the ring. It differs from the anchor, because the allocator of a Lua state may have
 * the same pointer. */
static Addr heap_of(Addr anchor)
{
    return anchor | RAW_HEAP_POOL;
}

static void put_heap(Addr heap, const HChar *name)
{
    HOST_PUT(heap, .kind = RAW_KIND_CUSTOM, .heap = heap, .name = host_text(name));
}

/* The heap of blocks without a pool, which is declared with the first of them. */
static Addr unpooled(void)
{
    static Bool written;
    if (!written)
        put_heap(RAW_HEAP_CUSTOM, "requests without a pool");
    written = True;
    return RAW_HEAP_CUSTOM;
}

/* Create a pool. name: an address in the program, which may be wrong; 0 = none. */
static void create(Addr anchor, Addr name)
{
    HChar text[POOL_NAME_BYTES + 1];
    struct pool *p = VG_(HT_lookup)(s_pools, anchor);
    if (p)
        return;
    p = VG_(malloc)("ljtrace.pool", sizeof *p);
    p->anchor = anchor;
    VG_(HT_add_node)(s_pools, p);
    program_text(name, text, sizeof text);
    put_heap(anchor, text);
}

static Bool is_pool(Addr anchor)
{
    static Bool said;
    if (VG_(HT_lookup)(s_pools, anchor))
        return True;
    if (!said)
        VG_(umsg)
    ("ljtrace: a request names a pool at %#lx that was not created: ignored\n",
     (Addr)(anchor & ~RAW_HEAP_POOL));
    said = True;
    return False;
}

static void destroy(Addr anchor)
{
    if (!is_pool(anchor))
        return;
    VG_(free)(VG_(HT_remove)(s_pools, anchor));
    HOST_PUT(close, .heap = anchor, .instructions = lt_ring->instructions);
}

static void move_pool(Addr from, Addr to)
{
    if (!is_pool(from))
        return;
    struct pool *p = VG_(HT_remove)(s_pools, from);
    p->anchor = to;
    VG_(HT_add_node)(s_pools, p);
    HOST_PUT(rename, .from = from, .to = to);
}

static void trim(ThreadId tid, Addr anchor, Addr addr, SizeT size)
{
    if (is_pool(anchor))
        lt_put_trim(anchor, addr, size, lt_own_stack(tid));
}

static void block_make(ThreadId tid, Addr heap, Addr addr, SizeT size)
{
    lt_filter_add_own(addr);
    host_block_new(addr, size, heap, MT_HOW_CUSTOM, lt_own_stack(tid));
}

static void resize(ThreadId tid, Addr heap, Addr old, Addr addr, SizeT size)
{
    lt_filter_add_own(addr);
    host_block_resize(old, addr, size, heap, MT_HOW_CUSTOM, lt_own_stack(tid));
}

static Bool pool_request(ThreadId tid, const UWord *a)
{
    Addr pool = heap_of(a[1]);
    switch (a[0]) {
    case VG_USERREQ__CREATE_MEMPOOL:
        create(pool, 0);
        return True;
    case LJTRACE_REQUEST_POOL_CREATE:
        create(pool, a[2]);
        return True;
    case VG_USERREQ__DESTROY_MEMPOOL:
        destroy(pool);
        return True;
    case VG_USERREQ__MEMPOOL_ALLOC:
        if (is_pool(pool))
            block_make(tid, pool, a[2], a[3]);
        return True;
    case VG_USERREQ__MEMPOOL_FREE:
        if (is_pool(pool))
            host_block_free(a[2], pool, MT_HOW_CUSTOM, lt_own_stack(tid));
        return True;
    case VG_USERREQ__MEMPOOL_CHANGE:
        if (is_pool(pool))
            resize(tid, pool, a[2], a[3], a[4]);
        return True;
    case VG_USERREQ__MEMPOOL_TRIM:
        trim(tid, pool, a[2], a[3]);
        return True;
    case VG_USERREQ__MOVE_MEMPOOL:
        move_pool(pool, heap_of(a[2]));
        return True;
    default:
        return False;
    }
}

static Bool block_request(ThreadId tid, const UWord *a)
{
    switch (a[0]) {
    case VG_USERREQ__MALLOCLIKE_BLOCK:
        block_make(tid, unpooled(), a[1], a[2]);
        return True;
    case VG_USERREQ__RESIZEINPLACE_BLOCK:
        resize(tid, unpooled(), a[1], a[1], a[3]);
        return True;
    case VG_USERREQ__FREELIKE_BLOCK:
        host_block_free(a[1], unpooled(), MT_HOW_CUSTOM, lt_own_stack(tid));
        return True;
    case LJTRACE_REQUEST_ALLOCATOR:
        if (a[1])
            HOST_PUT(enter);
        else
            HOST_PUT(leave);
        return True;
    default:
        return False;
    }
}

static Bool is_about_a_block(UWord request)
{
    static const UWord requests[] = {VG_USERREQ__MEMPOOL_ALLOC,  VG_USERREQ__MEMPOOL_FREE,
                                     VG_USERREQ__MEMPOOL_CHANGE, VG_USERREQ__MALLOCLIKE_BLOCK,
                                     VG_USERREQ__FREELIKE_BLOCK, VG_USERREQ__RESIZEINPLACE_BLOCK};
    for (UInt i = 0; i < sizeof requests / sizeof *requests; i++)
        if (request == requests[i])
            return True;
    return False;
}

/* Without --heap=custom, requests are accepted but ignored, except for the one that has an answer. */
Bool lt_pools_request(ThreadId tid, const UWord *args, UWord *ret)
{
    *ret = 0;
    if (args[0] == VG_USERREQ__MEMPOOL_EXISTS) {
        *ret = VG_(HT_lookup)(s_pools, heap_of(args[1])) != NULL;
        return True;
    }
    if (!lt_options.heap_custom && args[0] != VG_USERREQ__CREATE_MEMPOOL)
        return False;
    if (is_about_a_block(args[0]) && lt_lua_inside(tid))
        return True;
    return pool_request(tid, args) || block_request(tid, args);
}

void lt_pools_init(void)
{
    s_pools = VG_(HT_construct)("ljtrace.pools");
}
