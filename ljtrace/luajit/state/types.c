/* types.c - find the types of blocks in Lua heaps, by their contents or by the pointers to them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/jit/trace.h"
#include "memtrace/memtrace.h"

enum {
    HAND_WORDS = 24,      /* words of the C stack above a call of the allocator */
    SAVED_REGISTERS = 13, /* from RBX to R15, contiguous in the guest state */
    NEAR_BYTES = 1024,    /* the string table and buffers are in these bytes of the global state */
    FAR_BYTES = 6400,     /* and up to here follows the compiler's structure */
    LEAST_MASK = 255,     /* the smallest mask of a string table */
    TRACE_BYTES = 100,
    SLOT_BYTES = 8,   /* of a table's array part */
    NODE_BYTES = 24,  /* of a table's hash part */
    LIST_WORDS = 256, /* of the global state, one of which is the start of the collector's list */
    LIST_OBJECTS = 4, /* from so many objects it is learned which */
    LIST_STEPS = 64,  /* objects that finalisers may have put before a new one */
};

/* Where the global state has the start of the collector's list of objects. New objects become the first of that list. */
struct newest {
    uint32_t at;      /* offset in the global state; 0 = not known yet */
    uint32_t objects; /* from which it is being learned */
    uint64_t is_possible[LIST_WORDS / 64];
};

/* What is kept of a block until its type is known. */
struct lt_pending {
    uint64_t block; /* 0 = none */
    size_t size;
    struct lt_spot from; /* the trace that has allocated it */
    /* It was made by the call right after the one for the last object, which is therefore still in use. */
    bool follows_object;
    bool latest_is_object; /* the running call is the one right after that for the last object */
    bool is_going;         /* the running call frees it */
    uint32_t latest_owner; /* the word that pointed to the owner of the latest part found by a word */
    uint32_t words;
    uint64_t at_hand[HAND_WORDS + SAVED_REGISTERS]; /* words that may point to the owner */
    struct newest newest;                           /* of the state, not of the block */
};

void lt_types_global(const struct lt_vm *vm, uint64_t block)
{
    host_block_type(block, lt_vm_heap(vm), MT_TYPE_GLOBAL);
}

/* Copy words, for each block allocated. One at a time: most of them were stored one at a time just before,
 * and a load of two words at once would have to wait for both stores. */
static inline void copy_words(uint64_t *restrict to, const volatile uint64_t *from, uint32_t n)
{
#pragma GCC unroll 24
    for (uint32_t i = 0; i < n; i++)
        to[i] = from[i];
}

void lt_types_made(struct lt_vm *vm, uint64_t block, size_t size, uint64_t sp, const uint64_t *saved)
{
    uint32_t tid = host_thread();
    struct lt_pending *p = vm->pending;
    uint64_t top = host_stack_range(tid).end;
    p->block = block;
    p->size = size;
    p->from = vm->allocating;
    p->follows_object = p->latest_is_object;
    p->words = SAVED_REGISTERS;
    copy_words(p->at_hand, (const uint64_t *)saved, SAVED_REGISTERS);
    if (sp > top || top - sp < HAND_WORDS * sizeof(uint64_t)) /* the stack is readable up to its top */
        return;
    copy_words(p->at_hand + SAVED_REGISTERS, (const uint64_t *)sp, HAND_WORDS);
    p->words += HAND_WORDS;
}

void lt_types_unmade(uint64_t block)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->pending->block == block) {
            vm->live_bytes -= vm->pending->size;
            vm->pending->block = 0;
        }
}

/* -- objects -- */

/* Is a string in a chain of the string table, that is, followed by another or by none? If the block is a
 * buffer's text, and so not an object, it may still contain a freed string, but its first words are
 * different. */
static bool is_chained(const struct lt_vm *vm, uint64_t o)
{
    uint64_t next = lt_vm_ref(vm, o);
    return next == 0 || (!(next & 3) && lt_vm_gct(vm, next) == GCT_STR);
}

static bool is_string(const struct lt_vm *vm, uint64_t o, size_t size)
{
    size_t header = vm->layout->string_header;
    for (uint32_t back = 4; back <= 8; back += 4) {
        size_t whole = header + lt_vm_u32(o + header - back) + 1;
        if (size >= whole && size < whole + 8)
            return true;
    }
    return false;
}

static bool is_function(const struct lt_vm *vm, uint64_t o, size_t size)
{
    size_t n = program_number(o + vm->at->func_upvalues, 1);
    size_t room = size - vm->at->lua_func_bytes;
    if (program_number(o + vm->at->ffid, 1) == 0) /* the number is 0 until all upvalues are there */
        return size >= vm->at->lua_func_bytes && (room == n * vm->at->ref || (n == 0 && room <= 255 * 8));
    return size == vm->at->c_func_bytes + n * 8 || size == vm->at->c_func_bytes - 8 + n * 8;
}

static bool is_table(const struct lt_vm *vm, size_t size)
{
    size_t rest = size - vm->at->tab_bytes;
    return size >= vm->at->tab_bytes && rest <= 17 * 8 && rest % 8 == 0;
}

static bool is_before_object(const struct lt_vm *vm, uint64_t o)
{
    uint64_t next = lt_vm_ref(vm, o);
    uint32_t gct = next & 3 ? 0 : lt_vm_gct(vm, next);
    return gct >= GCT_STR && gct <= GCT_UDATA;
}

/* Is the object the first in the collector's list? Objects whose finalisers are about to run may have been put before it. */
static bool is_newest(const struct lt_vm *vm, uint64_t o)
{
    uint64_t at = lt_vm_ref(vm, vm->g + vm->pending->newest.at);
    for (uint32_t i = 0; i < LIST_STEPS && at && at != o; i++)
        at = lt_vm_ref(vm, at);
    return at == o;
}

/* A new object is the first in the collector's list, so it points to another object. The block of a buffer may contain what a
 * freed object has left, and then only the list shows that it is none. The collector takes an object that it frees out of the
 * list before. */
static bool is_linked(const struct lt_vm *vm, uint64_t o)
{
    const struct lt_pending *p = vm->pending;
    return is_before_object(vm, o) && (!p->newest.at || p->is_going || is_newest(vm, o));
}

/* Learn where the list starts from a new function or prototype; these are judged by more than the list. */
static void learn_newest(const struct lt_vm *vm, uint64_t o)
{
    struct newest *n = &vm->pending->newest;
    uint32_t possible = 0, last = 0;
    if (n->at && is_newest(vm, o))
        return;
    if (n->at)
        *n = (struct newest){0};
    for (uint32_t i = 0; i < LIST_WORDS; i++) {
        uint64_t bit = (uint64_t)1 << i % 64, *word = &n->is_possible[i / 64];
        bool is_there = (n->objects == 0 || *word & bit) && lt_vm_ref(vm, vm->g + i * vm->at->ref) == o;
        *word = is_there ? *word | bit : *word & ~bit;
        possible += is_there;
        last = is_there ? i : last;
    }
    n->objects = possible ? n->objects + 1 : 0;
    n->at = possible == 1 && n->objects >= LIST_OBJECTS ? last * vm->at->ref : 0;
}

/* A closed upvalue contains its value; an open one refers to a value on a stack. */
static bool is_upvalue(const struct lt_vm *vm, uint64_t o)
{
    uint32_t closed = (uint32_t)program_number(o + vm->at->ffid, 1);
    uint64_t v = lt_vm_ref(vm, o + vm->at->upval_value);
    return closed ? closed == 1 && v == o + vm->at->upval_value / 2
                  : v && v % 8 == 0 && program_readable(v, 8);
}

/* A trace's snapshots are in its own block. */
static bool is_trace(const struct lt_vm *vm, uint64_t o, size_t size)
{
    return size > TRACE_BYTES && lt_vm_ref(vm, o + vm->at->trace_snap) - o < size;
}

static bool is_thread(const struct lt_vm *vm, uint64_t o, size_t size)
{
    return size == vm->layout->thread_size && lt_vm_ref(vm, o + vm->at->ref * 2) == vm->g;
}

/* The type that the object's header says, if the block's size and something else agree with it. A part of a
 * table can contain anything. */
static enum mt_type object_type(const struct lt_vm *vm, uint64_t o, size_t size)
{
    const struct luajit_offsets *at = vm->at;
    switch (size >= 16 || !vm->layout->gc64 ? lt_vm_gct(vm, o) : 0) {
    case GCT_STR:
        return is_string(vm, o, size) && is_chained(vm, o) ? MT_TYPE_STR : MT_TYPE_UNKNOWN;
    case GCT_UPVAL:
        return size == at->upval_bytes && is_upvalue(vm, o) ? MT_TYPE_UPVAL : MT_TYPE_UNKNOWN;
    case GCT_THREAD:
        return is_thread(vm, o, size) ? MT_TYPE_THREAD : MT_TYPE_UNKNOWN;
    case GCT_PROTO:
        return size > at->proto_code && lt_vm_u32(o + at->proto_bytes) == size ? MT_TYPE_PROTO
                                                                               : MT_TYPE_UNKNOWN;
    case GCT_FUNC:
        return is_function(vm, o, size) && is_linked(vm, o) ? MT_TYPE_FUNC : MT_TYPE_UNKNOWN;
    case GCT_TRACE:
        return is_trace(vm, o, size) ? MT_TYPE_TRACE : MT_TYPE_UNKNOWN;
    case GCT_CDATA:
        return is_linked(vm, o) ? MT_TYPE_CDATA : MT_TYPE_UNKNOWN;
    case GCT_TAB:
        return is_table(vm, size) && is_linked(vm, o) ? MT_TYPE_TAB : MT_TYPE_UNKNOWN;
    case GCT_UDATA:
        return lt_vm_u32(o + at->udata_len) + at->udata_bytes == size ? MT_TYPE_UDATA : MT_TYPE_UNKNOWN;
    default:
        return MT_TYPE_UNKNOWN;
    }
}

/* -- parts -- */

/* Which part of an object that is in use is the block? A buffer can look like a table: its pointer to the text is where a
 * table has the pointer to its array, and a byte of an address can equal the type of tables. So the sizes
 * have to agree as well. */
static enum mt_type part_of_used(const struct lt_vm *vm, uint64_t object, uint64_t block, size_t size)
{
    const struct luajit_offsets *at = vm->at;
    uint32_t gct = lt_vm_gct(vm, object);
    if (gct == GCT_TAB && lt_vm_ref(vm, object + at->tab_array) == block)
        return lt_vm_u32(object + at->tab_asize) * (size_t)SLOT_BYTES == size ? MT_TYPE_TAB_ARRAY
                                                                              : MT_TYPE_UNKNOWN;
    if (gct == GCT_TAB && lt_vm_ref(vm, object + at->tab_node) == block)
        return (lt_vm_u32(object + at->tab_asize + 4) + 1) * (size_t)NODE_BYTES == size ? MT_TYPE_TAB_HASH
                                                                                        : MT_TYPE_UNKNOWN;
    if (gct == GCT_THREAD && lt_vm_ref(vm, object + at->thread_stack) == block)
        return MT_TYPE_STACK;
    return MT_TYPE_UNKNOWN;
}

/* The same of an object at an address that is only a guess. */
static enum mt_type part_of(const struct lt_vm *vm, uint64_t object, uint64_t block, size_t size)
{
    program_doubt(object);
    return object & 7 || !program_readable(object, vm->at->tab_bytes) ? MT_TYPE_UNKNOWN
                                                                      : part_of_used(vm, object, block, size);
}

static enum mt_type part_at_hand(const struct lt_vm *vm, struct lt_pending *p)
{
    enum mt_type type = p->follows_object ? part_of_used(vm, vm->last_object, p->block, p->size)
                                          : part_of(vm, vm->last_object, p->block, p->size);
    if (type == MT_TYPE_UNKNOWN && p->latest_owner < p->words)
        type = part_of(vm, p->at_hand[p->latest_owner], p->block, p->size);
    for (uint32_t i = 0; i < p->words && type == MT_TYPE_UNKNOWN; i++) {
        type = part_of(vm, p->at_hand[i], p->block, p->size);
        p->latest_owner = type == MT_TYPE_UNKNOWN ? p->latest_owner : i;
    }
    return type;
}

/* In a buffer, the pointer to the end of the text precedes the pointer to its start. */
static bool ends_before(const struct lt_vm *vm, uint64_t at, uint64_t end)
{
    return program_number(at - 8, 8) == end || lt_vm_ref(vm, at - vm->at->ref) == end;
}

/* The block is a part to which the global state has a pointer, at `at`. If that is followed by the mask for
 * the block's size, the block is the string table; this pointer has 8 bytes in all builds. */
static enum mt_type near_part(const struct lt_vm *vm, uint64_t at, uint64_t block, size_t size)
{
    uint32_t mask = size / vm->at->ref - 1;
    if (mask >= LEAST_MASK && lt_vm_u32(at + sizeof(uint64_t)) == mask)
        return MT_TYPE_STRING_TABLE;
    if (vm->layout->recorder && at - vm->g >= vm->layout->recorder)
        return MT_TYPE_JIT;
    return ends_before(vm, at, block + size) ? MT_TYPE_BUFFER : MT_TYPE_UNKNOWN;
}

static enum mt_type global_part(const struct lt_vm *vm, uint64_t block, size_t size)
{
    uint32_t ref = vm->at->ref;
    for (uint32_t o = 0; o + 8 <= FAR_BYTES; o += 4)
        if (program_number(vm->g + o, o % 8 ? ref : 8) == block || program_number(vm->g + o, ref) == block)
            return o >= NEAR_BYTES ? MT_TYPE_JIT : near_part(vm, vm->g + o, block, size);
    return MT_TYPE_UNKNOWN;
}

/* Can a block of this size be a string table? Those have a power of two of chains. */
static bool has_table_size(const struct lt_vm *vm, size_t size)
{
    return size > LEAST_MASK * vm->at->ref && (size & (size - 1)) == 0;
}

/* Does this block replace the string table that is about to be freed? A new string table has half or twice
 * the size of the old one, and replaces it only when that is freed. It begins with pointers to strings, so it
 * may look like any object that is linked to another. The sizes are compared first, as searching the global
 * state takes longer than all else that is done for a block. */
static bool replaces_strings(const struct lt_vm *vm, size_t size, uint64_t gone, size_t gone_size)
{
    return gone && (size == 2 * gone_size || gone_size == 2 * size) && has_table_size(vm, gone_size) &&
           global_part(vm, gone, gone_size) == MT_TYPE_STRING_TABLE;
}

/* Is the block the text of a string.buffer? Code that enlarges it has a pointer to the buffer, which is in a
 * userdata; its third word is the pointer to the text. */
static bool is_buffer_text(const struct lt_vm *vm, const struct lt_pending *p)
{
    size_t header = vm->at->udata_bytes;
    for (uint32_t i = 0; i < p->words; i++) {
        uint64_t udata = p->at_hand[i] - header;
        program_doubt(udata);
        if (!(udata & 7) && program_readable(udata, header + 24) && lt_vm_gct(vm, udata) == GCT_UDATA &&
            program_number(udata + vm->at->ffid, 1) == UDATA_BUFFER &&
            program_number(udata + header + 16, 8) == p->block)
            return true;
    }
    return false;
}

/* The type of a block that belongs to no object, or to one that was not created for it. */
static enum mt_type other_part(const struct lt_vm *vm, const struct lt_pending *p)
{
    enum mt_type type = global_part(vm, p->block, p->size);
    return type == MT_TYPE_UNKNOWN && is_buffer_text(vm, p) ? MT_TYPE_BUFFER : type;
}

static bool is_internal(enum mt_type type)
{
    return type == MT_TYPE_UNKNOWN || (type > MT_TYPE_UDATA && type != MT_TYPE_TAB_ARRAY &&
                                       type != MT_TYPE_TAB_HASH && type != MT_TYPE_STACK);
}

static enum mt_type type_now(const struct lt_vm *vm, struct lt_pending *p)
{
    enum mt_type type = object_type(vm, p->block, p->size);
    if (type == MT_TYPE_UNKNOWN)
        type = part_at_hand(vm, p);
    return type == MT_TYPE_UNKNOWN ? other_part(vm, p) : type;
}

/* The pending block has this type; MT_TYPE_UNKNOWN = none that is known. */
static void conclude(struct lt_vm *vm, enum mt_type type)
{
    struct lt_pending *p = vm->pending;
    p->latest_is_object = type == MT_TYPE_TAB || type == MT_TYPE_THREAD;
    if (p->latest_is_object)
        vm->last_object = p->block;
    if (type == MT_TYPE_PROTO)
        lt_proto_made(vm, p->block);
    else if (type == MT_TYPE_FUNC)
        lt_function_made(vm, p->block);
    else if (type == MT_TYPE_STR)
        lt_accounting_learn_string(vm, p->block, p->size);
    if ((type == MT_TYPE_PROTO || type == MT_TYPE_FUNC) && !p->is_going)
        learn_newest(vm, p->block);
    if (is_internal(type))
        lt_accounting_internal(vm, p->block, p->size);
    if (p->from.trace)
        lt_trace_made(&p->from, type);
    host_block_type(p->block, lt_vm_heap(vm), type == MT_TYPE_UNKNOWN ? MT_TYPE_OTHER : type);
    p->block = 0;
}

void lt_types_settle(struct lt_vm *vm, uint64_t gone, size_t gone_size)
{
    struct lt_pending *p = vm->pending;
    p->latest_is_object = false;
    p->is_going = gone == p->block;
    if (p->block)
        conclude(vm, replaces_strings(vm, p->size, gone, gone_size) ? MT_TYPE_STRING_TABLE : type_now(vm, p));
}

void lt_types_settle_all(void)
{
    program_forget();
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next) {
        const bool is_there = vm->pending->block && !vm->ended && !vm->closed_by;
        vm->pending->is_going = false;
        const enum mt_type type = is_there ? type_now(vm, vm->pending) : MT_TYPE_UNKNOWN;
        if (type != MT_TYPE_UNKNOWN)
            conclude(vm, type);
    }
}

static void types_begin(struct lt_vm *vm)
{
    vm->pending = host_new(sizeof *vm->pending);
}

static void types_end(struct lt_vm *vm)
{
    host_free(vm->pending);
}

void lt_types_init(void)
{
    lt_vm_hook(&(struct lt_vm_hooks){.made = types_begin, .ends = types_end});
}
