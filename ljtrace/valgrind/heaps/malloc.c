/* malloc.c - replace and record malloc and its relatives. (see malloc.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The program's C allocator is Valgrind's, as with other heap tools. So all forms of allocation come here,
 * and the allocator's own accesses are not seen as the program's. A table of live blocks distinguishes valid
 * frees from invalid ones. An invalid free is recorded and otherwise ignored.
 */
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/heaps/malloc.h"
#include "ljtrace/valgrind/heaps/observe.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/memtrace.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_poolalloc.h"
#include "pub_tool_replacemalloc.h"
#include "pub_tool_tooliface.h"

struct block {
    struct block *next;
    UWord addr;
    /* The address of the block in Valgrind's allocator. It is less than addr if the program asked for a larger
     * alignment than that allocator has. */
    UWord base;
    SizeT size : 63;
    SizeT hidden : 1; /* neither the block nor its resizes and its free are recorded */
};

/* If Valgrind's allocator is asked for nearly half the address space, or for an alignment of more than 16
 * MiB, it ends the program. libc's returns NULL or the block. */
static const SizeT MOST_BYTES = 1ULL << 47, MOST_ALIGNED = 1 << 20;

static VgHashTable *s_blocks;
static PoolAlloc *s_pool;

/* Can a block be resized in place? The allocator's rounding leaves some slack after it. */
static Bool fits_in_place(struct block *b, SizeT size)
{
    SizeT usable = VG_(cli_malloc_usable_size)((void *)b->base) - (b->addr - b->base);
    return size <= usable && size >= usable / 2;
}

const struct lt_stack *lt_own_stack(ThreadId tid)
{
    static struct lt_stack stack;
    lt_take_own_stack(tid, &stack);
    return &stack;
}

/* What an allocator function of a Lua state, or an observed one, gets from the C heap is its raw material,
 * not blocks of the program. */
static Bool hidden_now(ThreadId tid)
{
    return !lt_options.heap_malloc || lt_is_hiding(tid) || lt_lua_inside(tid) || lt_observe_inside(tid);
}

/* A block that is not recorded may take memory of blocks that were. */
static void put_hidden(ThreadId tid, Addr addr, SizeT size)
{
    if (lt_is_hiding(tid))
        HOST_PUT(mapped, .addr = addr, .size = size);
}

/* Allocate memory for a block. Returns its address, and in *base that of the allocator's block; 0 = there is
 * no memory. */
static Addr find_room(SizeT size, SizeT align, Addr *base)
{
    if (size > MOST_BYTES || align > MOST_BYTES)
        return 0;
    if (align <= MOST_ALIGNED)
        return *base = (Addr)VG_(cli_malloc)(align, size);
    *base = (Addr)VG_(cli_malloc)(VG_(clo_alignment), size + align);
    return *base ? VG_ROUNDUP(*base, align) : 0;
}

static struct block *remember(Addr addr, Addr base, SizeT size, Bool hidden)
{
    struct block *b = VG_(allocEltPA)(s_pool);
    b->addr = addr;
    b->base = base;
    b->size = size;
    b->hidden = hidden;
    VG_(HT_add_node)(s_blocks, b);
    return b;
}

static void *new_block(ThreadId tid, SizeT size, SizeT align, Bool zero, enum mt_how how)
{
    Addr base, addr = find_room(size, align, &base);
    if (!addr)
        return NULL;
    if (zero)
        VG_(memset)((void *)addr, 0, size);
    if (remember(addr, base, size, hidden_now(tid))->hidden)
        put_hidden(tid, addr, size);
    else
        host_block_new(addr, size, RAW_HEAP_C, how, lt_own_stack(tid));
    return (void *)addr;
}

static void free_block(ThreadId tid, void *p, enum mt_how how)
{
    struct block *b = VG_(HT_remove)(s_blocks, (UWord)p);
    if (b ? !b->hidden : !hidden_now(tid))
        host_block_free((Addr)p, RAW_HEAP_C, how, lt_own_stack(tid));
    if (!b)
        return;
    VG_(cli_free)((void *)b->base);
    VG_(freeEltPA)(s_pool, b);
}

static void *move_block(struct block *b, SizeT size, SizeT align)
{
    Addr base, addr = find_room(size, align, &base);
    if (!addr)
        return NULL;
    VG_(memcpy)((void *)addr, (void *)b->addr, b->size < size ? b->size : size);
    VG_(cli_free)((void *)b->base);
    VG_(HT_remove)(s_blocks, b->addr);
    b->addr = addr;
    b->base = base;
    VG_(HT_add_node)(s_blocks, b);
    return (void *)addr;
}

static void *resize_block(ThreadId tid, void *old, SizeT size, SizeT align)
{
    struct block *b = VG_(HT_lookup)(s_blocks, (UWord)old);
    if (!b) {
        if (!hidden_now(tid))
            host_block_free((Addr)old, RAW_HEAP_C, MT_HOW_REALLOC, lt_own_stack(tid));
        return NULL;
    }
    Bool stays = (UWord)old % align == 0 && fits_in_place(b, size);
    void *p = stays ? old : move_block(b, size, align);
    if (!p)
        return NULL;
    b->size = size;
    if (b->hidden)
        put_hidden(tid, (Addr)p, size);
    else
        host_block_resize((Addr)old, (Addr)p, size, RAW_HEAP_C, MT_HOW_REALLOC, lt_own_stack(tid));
    return p;
}

/* Newer versions of Valgrind pass the alignment requested in addition to the one to give. */
#if LT_ASKED_ALIGN
#define AND_ASKED , SizeT asked
#else
#define AND_ASKED
#endif

void *lt_heap_new(ThreadId tid, SizeT size, SizeT align, UInt how)
{
    SizeT least = VG_(clo_alignment);
    return new_block(tid, size, align > least ? align : least, how == MT_HOW_CALLOC, how);
}

void *lt_heap_resize(ThreadId tid, Addr old, SizeT size, SizeT align, Bool zero)
{
    const struct block *b = VG_(HT_lookup)(s_blocks, old);
    SizeT had = b ? b->size : size, least = VG_(clo_alignment);
    UChar *p = resize_block(tid, (void *)old, size, align > least ? align : least);
    if (p && zero && size > had)
        VG_(memset)(p + had, 0, size - had);
    return p;
}

void lt_heap_free(ThreadId tid, Addr addr)
{
    free_block(tid, (void *)addr, MT_HOWS);
}

Bool lt_heap_owns(Addr addr)
{
    if (VG_(HT_lookup)(s_blocks, addr))
        return True;
    const NSegment *segment = VG_(am_find_nsegment)(addr);
    return segment && segment->kind == SkAnonC && segment->isCH;
}

SizeT lt_heap_bytes(Addr addr)
{
    const struct block *b = VG_(HT_lookup)(s_blocks, addr);
    return b ? b->size : 0;
}

void lt_heap_made_by(ThreadId tid, Addr addr, UInt freed, UInt how)
{
    struct block *b = VG_(HT_lookup)(s_blocks, addr);
    if (!b || b->hidden)
        return;
    host_block_free(addr, RAW_HEAP_C, freed, lt_own_stack(tid));
    host_block_new(addr, b->size, RAW_HEAP_C, how, lt_own_stack(tid));
}

static void *on_malloc(ThreadId tid, SizeT n)
{
    return new_block(tid, n, VG_(clo_alignment), False, MT_HOW_MALLOC);
}
static void *on_new(ThreadId tid, SizeT n)
{
    return new_block(tid, n, VG_(clo_alignment), False, MT_HOW_CXX_NEW);
}
static void *on_new_aligned(ThreadId tid, SizeT n, SizeT align AND_ASKED)
{
    return new_block(tid, n, align, False, MT_HOW_CXX_NEW);
}
static void *on_vec_new(ThreadId tid, SizeT n)
{
    return new_block(tid, n, VG_(clo_alignment), False, MT_HOW_CXX_NEW_ARRAY);
}
static void *on_vec_new_aligned(ThreadId tid, SizeT n, SizeT align AND_ASKED)
{
    return new_block(tid, n, align, False, MT_HOW_CXX_NEW_ARRAY);
}
static void *on_memalign(ThreadId tid, SizeT align AND_ASKED, SizeT n)
{
    return new_block(tid, n, align, False, MT_HOW_MEMALIGN);
}
static void *on_calloc(ThreadId tid, SizeT count, SizeT size)
{
    SizeT total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return new_block(tid, total, VG_(clo_alignment), True, MT_HOW_CALLOC);
}
static void on_free(ThreadId tid, void *p)
{
    free_block(tid, p, MT_HOW_MALLOC);
}
static void on_delete(ThreadId tid, void *p)
{
    free_block(tid, p, MT_HOW_CXX_NEW);
}
static void on_delete_aligned(ThreadId tid, void *p, SizeT align)
{
    free_block(tid, p, MT_HOW_CXX_NEW);
}
static void on_vec_delete(ThreadId tid, void *p)
{
    free_block(tid, p, MT_HOW_CXX_NEW_ARRAY);
}
static void on_vec_delete_aligned(ThreadId tid, void *p, SizeT align)
{
    free_block(tid, p, MT_HOW_CXX_NEW_ARRAY);
}
static void *on_realloc(ThreadId tid, void *p, SizeT n)
{
    if (!p) /* Only reallocarray does this: Valgrind makes realloc(NULL, n) a malloc. */
        return new_block(tid, n, VG_(clo_alignment), False, MT_HOW_MALLOC);
    if (n == 0) {
        free_block(tid, p, MT_HOW_REALLOC);
        return NULL;
    }
    return resize_block(tid, p, n, VG_(clo_alignment));
}
static SizeT on_usable_size(ThreadId tid, void *p)
{
    return lt_heap_bytes((Addr)p);
}

void lt_heap_init(void)
{
    s_blocks = VG_(HT_construct)("ljtrace.blocks");
    s_pool = VG_(newPA)(sizeof(struct block), 4096, VG_(malloc), "ljtrace.block", VG_(free));
    VG_(needs_malloc_replacement)
    (on_malloc, on_new, on_new_aligned, on_vec_new, on_vec_new_aligned, on_memalign, on_calloc, on_free,
     on_delete, on_delete_aligned, on_vec_delete, on_vec_delete_aligned, on_realloc, on_usable_size, 0);
}
