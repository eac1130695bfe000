/* malloc.c - replace and record malloc and its relatives. (host side, no libc; see malloc.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The program's C allocator is Valgrind's, as with other heap tools. So all forms of allocation come here,
 * and the allocator's own accesses are not seen as the program's. A table of live blocks distinguishes valid
 * frees from invalid ones. An invalid free is recorded and otherwise ignored.
 */
#include "ljtrace/tool/heaps/malloc.h"
#include "ljtrace/tool/base/options.h"
#include "ljtrace/tool/heaps/observe.h"
#include "ljtrace/tool/heaps/unseen.h"
#include "ljtrace/tool/instrument/sample.h"
#include "ljtrace/tool/luajit/heap/allocator.h"
#include "ljtrace/tool/luajit/stack/stack.h"
#include "ljtrace/tool/ring/block_filter.h"
#include "ljtrace/tool/ring/records.h"
#include "ljtrace/tool/session/leak_scan.h"
#include "ljtrace/tool/syscalls/buffers.h"
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
    UWord
        base; /* what Valgrind's allocator knows it by: less than addr if it is aligned more than that can */
    SizeT size : 63;
    SizeT hidden : 1; /* neither the block nor its resizes and its free are recorded */
};

/* If Valgrind's allocator is asked for nearly half the address space, or for an alignment of more than 16
 * MiB, it ends the program. libc's returns NULL or the block. */
static const SizeT MOST_BYTES = 1ULL << 47, MOST_ALIGNED = 1 << 20;

static VgHashTable *s_blocks;
static ThreadId s_hiding; /* the thread whose allocations are hidden; 0 = none */
static PoolAlloc *s_pool;

/* Can a block be resized in place? The allocator's rounding leaves some slack after it. */
static Bool fits_in_place(struct block *b, SizeT size)
{
    SizeT usable = VG_(cli_malloc_usable_size)((void *)b->base) - (b->addr - b->base);
    return size <= usable && size >= usable / 2;
}

static const struct lt_stack *take(ThreadId tid)
{
    static struct lt_stack stack;
    lt_take_own_stack(tid, &stack);
    return &stack;
}

/* The slot of a heap in the ring. */
static UInt slot_of(Addr heap)
{
    static Addr slots[RING_HEAP_SLOTS]; /* as the collector knows them: the C heap's */
    UInt slot = (UInt)((heap * 0x9e3779b97f4a7c15ULL) >> 58);
    if (slots[slot] != heap) {
        slots[slot] = heap;
        RING_PUT(slot, .slot = slot, .heap = heap);
    }
    return slot;
}

static inline struct raw_stack reference(const struct lt_stack *stack)
{
    return (struct raw_stack){stack->id, stack->depth, (const uint64_t *)stack->ips};
}

/* Before a block ends or moves: what is being sent may be in it. */
static inline void finish_transfers(void)
{
    if (lt_buffers_waiting)
        lt_buffers_report_all();
}

void lt_put_new(Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack)
{
    struct ring_new r = {.how = how,
                         .addr = addr,
                         .size = size,
                         .instructions = lt_ring->instructions,
                         .stack = reference(stack)};
    lt_unseen_block(size);
    if (how != MT_HOW_LUA)
        lt_leak_scan_block(addr, size);
    if (lt_options.trace_mem)
        lt_filter_add(addr, size);
    r.slot = slot_of(heap);
    lt_put_fast_new(&r);
}

void lt_put_free(Addr addr, Addr heap, UInt how, const struct lt_stack *stack)
{
    struct ring_free r = {
        .how = how, .addr = addr, .instructions = lt_ring->instructions, .stack = reference(stack)};
    finish_transfers();
    r.slot = slot_of(heap);
    lt_put_fast_free(&r);
}

void lt_put_resize(Addr old, Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack)
{
    struct ring_resize r = {.how = how,
                            .old = old,
                            .addr = addr,
                            .size = size,
                            .instructions = lt_ring->instructions,
                            .stack = reference(stack)};
    if (how != MT_HOW_LUA)
        lt_leak_scan_block(addr, size);
    if (lt_options.trace_mem)
        lt_filter_add(addr, size);
    finish_transfers();
    r.slot = slot_of(heap);
    lt_put_fast_resize(&r);
}

void lt_put_type(Addr addr, Addr heap, UInt type)
{
    lt_put_fast_type(&(struct ring_type){.slot = slot_of(heap), .type = type, .addr = addr});
}

void lt_put_trim(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack)
{
    finish_transfers();
    RING_PUT(trim, .heap = heap, .addr = addr, .size = size, .instructions = lt_ring->instructions,
             .stack = reference(stack));
}

void lt_put_unmap(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack)
{
    finish_transfers();
    RING_PUT(unmap, .heap = heap, .addr = addr, .size = size, .instructions = lt_ring->instructions,
             .stack = reference(stack));
}

void lt_put_remap(Addr heap, Addr old, SizeT old_size, Addr addr, SizeT size, const struct lt_stack *stack)
{
    finish_transfers();
    RING_PUT(remap, .heap = heap, .old = old, .old_size = old_size, .addr = addr, .size = size,
             .instructions = lt_ring->instructions, .stack = reference(stack));
}

void lt_heap_hide(ThreadId tid, Bool hide)
{
    s_hiding = hide ? tid : 0;
    lt_sample_pause(hide);
}

Bool lt_heap_is_hiding(ThreadId tid)
{
    return s_hiding == tid;
}

/* What an allocator function of a Lua state, or an observed one, gets from the C heap is its raw material,
 * not blocks of the program. */
static Bool hidden_now(ThreadId tid)
{
    return !lt_options.heap_malloc || s_hiding == tid || lt_lua_inside(tid) || lt_observe_inside(tid);
}

/* A block that is not recorded may take memory of blocks that were. */
static void put_hidden(ThreadId tid, Addr addr, SizeT size)
{
    if (s_hiding == tid)
        RING_PUT(mapped, .addr = addr, .size = size);
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
        lt_put_new(addr, size, RAW_HEAP_C, how, take(tid));
    return (void *)addr;
}

static void free_block(ThreadId tid, void *p, enum mt_how how)
{
    struct block *b = VG_(HT_remove)(s_blocks, (UWord)p);
    if (b ? !b->hidden : !hidden_now(tid))
        lt_put_free((Addr)p, RAW_HEAP_C, how, take(tid));
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
            lt_put_free((Addr)old, RAW_HEAP_C, MT_HOW_REALLOC, take(tid));
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
        lt_put_resize((Addr)old, (Addr)p, size, RAW_HEAP_C, MT_HOW_REALLOC, take(tid));
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
    lt_put_free(addr, RAW_HEAP_C, freed, take(tid));
    lt_put_new(addr, b->size, RAW_HEAP_C, how, take(tid));
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
