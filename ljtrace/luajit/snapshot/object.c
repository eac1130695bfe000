/* object.c - sizes, colours and values of Lua objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The size of an object is computed from its content, as LuaJIT's garbage collector does when it frees it.
 * There are two ways to round the size of a string, and two places of its length; which ones this build uses
 * was learned from strings that it has allocated (ljtrace/luajit/core/accounting.c).
 */
#include "ljtrace/luajit/snapshot/snapshot_impl.h"

enum { WHITES = 3, INSTRUCTION_BYTES = 8, SNAPSHOT_BYTES = 12, SLOT = 8 };

uint64_t object_value(const struct snapshot *u, uint64_t slot, uint32_t *gct)
{
    uint64_t v = program_number(slot, SLOT);
    bool wide = u->vm->layout->gc64;
    uint32_t tag = wide ? (uint32_t) ~((int64_t)v >> 47) : ~(uint32_t)(v >> 32);
    if (tag < GCT_STR || tag > GCT_UDATA)
        return 0;
    *gct = tag;
    return wide ? v & (((uint64_t)1 << 47) - 1) : (uint32_t)v;
}

uint32_t string_length(const struct lt_vm *vm, uint64_t string)
{
    uint32_t form = vm->string_forms, back = form & 3 ? 4 : 8;
    return lt_vm_u32(string + vm->layout->string_header - back);
}

/* The size of a string object. */
static uint64_t string_bytes(const struct lt_vm *vm, uint64_t string)
{
    uint32_t form = vm->string_forms, exact = form & 3 ? form & 1 : form & 4;
    uint64_t n = string_length(vm, string);
    return vm->layout->string_header + (exact ? n + 1 : ((n + 4) & ~(uint64_t)3));
}

static uint64_t function_bytes(const struct snapshot *u, uint64_t o)
{
    uint64_t n = program_number(o + u->at->func_upvalues, 1);
    if (program_number(o + u->at->ffid, 1) == FFID_LUA)
        return u->at->lua_func_bytes + n * u->at->ref;
    return u->at->c_func_bytes + n * SLOT;
}

static uint64_t table_bytes(const struct snapshot *u, uint64_t o)
{
    uint32_t array = lt_vm_u32(o + u->at->tab_asize), mask = lt_vm_u32(o + u->at->tab_asize + 4);
    uint32_t colo = (uint32_t)program_number(o + u->at->tab_colo, 1);
    uint64_t bytes = u->at->tab_bytes + (colo & 0x7f) * SLOT;
    if (mask)
        bytes += ((uint64_t)mask + 1) * NODE_BYTES;
    if (array && (colo == 0 || colo & 0x80))
        bytes += (uint64_t)array * SLOT;
    return bytes;
}

static uint64_t thread_bytes(const struct snapshot *u, uint64_t o)
{
    uint64_t stack = (uint64_t)lt_vm_u32(o + u->at->thread_size) * SLOT;
    return o == snapshot_main(u) ? stack : stack + u->vm->layout->thread_size;
}

/* The trace is followed by its instructions, its snapshots and their maps. */
static uint64_t trace_bytes(const struct snapshot *u, uint64_t o)
{
    uint32_t nk = lt_vm_u32(o + u->at->trace_nk), maps = lt_vm_u32(o + u->at->trace_nk + 4);
    uint64_t code = program_number(o + u->at->trace_ir, 8) + (uint64_t)nk * INSTRUCTION_BYTES;
    uint32_t instructions = lt_vm_u32(o + u->at->trace_nins) - nk;
    uint32_t snapshots = (uint32_t)program_number(o + u->at->trace_nsnap, 2);
    return code - o + (uint64_t)instructions * INSTRUCTION_BYTES + (uint64_t)snapshots * SNAPSHOT_BYTES +
           (uint64_t)maps * 4;
}

/* A string.buffer has these fields: end of the text, end of the block, start of the block, a thread with
 * flags, the string that it shows if the text is not its own, the read position, and two dictionaries. Older
 * builds use this kind of userdata for something else, which has no such thread. */
bool snapshot_buffer(const struct snapshot *u, uint64_t udata, struct snapshot_buffer *b)
{
    enum { SHOWN = 2, LENT = 4, FLAGS = 7, REFERENCES = 24 };
    uint64_t at = udata + u->at->udata_bytes, words = at + REFERENCES,
             dictionaries = words + 2 * (uint64_t)u->at->ref + 8;
    uint64_t thread = lt_vm_ref(u->vm, words) & ~(uint64_t)FLAGS, flags = lt_vm_ref(u->vm, words) & FLAGS;
    *b = (struct snapshot_buffer){0};
    if (program_number(udata + u->at->ffid, 1) != UDATA_BUFFER || !thread || !program_readable(thread, 16) ||
        lt_vm_gct(u->vm, thread) != GCT_THREAD)
        return false;
    uint64_t begin = program_number(at + 16, 8), end = program_number(at + 8, 8);
    if (!(flags & (SHOWN | LENT)) && begin && end > begin) {
        b->data = begin;
        b->bytes = end - begin;
    }
    b->borrowed = flags & SHOWN ? lt_vm_ref(u->vm, words + u->at->ref) : 0;
    b->strings = lt_vm_ref(u->vm, dictionaries);
    b->metatables = lt_vm_ref(u->vm, dictionaries + u->at->ref);
    return true;
}

static uint64_t udata_bytes(const struct snapshot *u, uint64_t o)
{
    struct snapshot_buffer b;
    uint64_t bytes = u->at->udata_bytes + lt_vm_u32(o + u->at->udata_len);
    return snapshot_buffer(u, o, &b) ? bytes + b.bytes : bytes;
}

static uint64_t bytes_of(const struct snapshot *u, uint64_t o)
{
    uint64_t block;
    switch (lt_vm_gct(u->vm, o)) {
    case GCT_STR:
        return string_bytes(u->vm, o);
    case GCT_UPVAL:
        return u->at->upval_bytes;
    case GCT_THREAD:
        return thread_bytes(u, o);
    case GCT_PROTO:
        return lt_vm_u32(o + u->at->proto_bytes);
    case GCT_FUNC:
        return function_bytes(u, o);
    case GCT_TRACE:
        return trace_bytes(u, o);
    case GCT_CDATA:
        return cdata_bytes(u, o, &block);
    case GCT_TAB:
        return table_bytes(u, o);
    default:
        return udata_bytes(u, o);
    }
}

uint64_t object_bytes(const struct snapshot *u, uint64_t o)
{
    uint64_t bytes = bytes_of(u, o);
    return bytes <= program_number(u->gc, u->at->ref) ? bytes : 0;
}

void object_parts(const struct snapshot *u, uint64_t o, uint64_t part[2])
{
    uint32_t gct = lt_vm_gct(u->vm, o);
    struct snapshot_buffer b;
    part[0] = part[1] = 0;
    if (gct == GCT_TAB) {
        part[0] = lt_vm_ref(u->vm, o + u->at->tab_array);
        part[1] = lt_vm_ref(u->vm, o + u->at->tab_node);
    } else if (gct == GCT_THREAD)
        part[0] = lt_vm_ref(u->vm, o + u->at->thread_stack);
    else if (gct == GCT_CDATA)
        cdata_bytes(u, o, &part[0]);
    else if (gct == GCT_UDATA && snapshot_buffer(u, o, &b))
        part[0] = b.data;
}

/* An object is garbage if it has only the other white and is not fixed. */
bool object_is_dead(const struct snapshot *u, uint64_t o)
{
    uint32_t marked = (uint32_t)program_number(o + u->at->gct - 1, 1);
    uint32_t other = (uint32_t)program_number(u->gc + 2 * u->at->ref, 1) ^ WHITES;
    return ((marked ^ WHITES) & other) == 0;
}
