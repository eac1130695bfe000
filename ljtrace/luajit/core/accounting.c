/* accounting.c - count the bytes of each Lua state, and keep its blocks that are not objects. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/protocol/table.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_mallocfree.h"

/* An internal block. It begins with the fields that the core's hash table requires. */
struct internal {
    struct internal *next;
    UWord block;
    SizeT size;
};

enum { COUNTS = 4096 };

/* Number of internal blocks by hash: most blocks that are freed are not internal, so most look-ups end
 * here. */
LASTING_TABLE(UInt, s_count, COUNTS);

static UInt *count_of(Addr block)
{
    return &s_count[block / 16 % COUNTS];
}

void lt_accounting_made(struct lt_vm *vm, SizeT size)
{
    vm->live_bytes += size;
}

static SizeT forget(struct lt_vm *vm, Addr block)
{
    struct internal *i = vm->internal && *count_of(block) ? VG_(HT_remove)(vm->internal, block) : NULL;
    if (!i)
        return 0;
    SizeT size = i->size;
    vm->internal_bytes -= size;
    --*count_of(block);
    VG_(free)(i);
    return size;
}

void lt_accounting_gone(struct lt_vm *vm, Addr block, SizeT size)
{
    vm->live_bytes -= size;
    forget(vm, block);
}

void lt_accounting_internal(struct lt_vm *vm, Addr block, SizeT size)
{
    if (!vm->internal)
        vm->internal = VG_(HT_construct)("ljtrace.internal");
    forget(vm, block);
    struct internal *i = VG_(malloc)("ljtrace.internal", sizeof *i);
    *i = (struct internal){.block = block, .size = size};
    VG_(HT_add_node)(vm->internal, i);
    ++*count_of(block);
    vm->internal_bytes += size;
}

void lt_accounting_moved(struct lt_vm *vm, Addr old, SizeT old_size, Addr block, SizeT size)
{
    vm->live_bytes += size - old_size;
    if (forget(vm, old))
        lt_accounting_internal(vm, block, size);
}

void lt_accounting_claim(struct lt_vm *vm, Addr block)
{
    if (block)
        forget(vm, block);
}

ULong lt_accounting_internal_bytes(const struct lt_vm *vm)
{
    return vm->internal_bytes;
}

/* Find the ways to compute a string's size that fit all strings so far. Bits 0 and 1: the length is stored 4
 * bytes before the text, and the size is not rounded (0) or rounded (1). Bits 2 and 3: the same with the
 * length 8 bytes before. */
void lt_accounting_learn_string(struct lt_vm *vm, Addr string, SizeT size)
{
    UInt header = vm->layout->string_header, fits = 0;
    if ((vm->string_forms & (vm->string_forms - 1)) == 0)
        return;
    for (UInt back = 4; back <= 8; back += 4) {
        ULong n = lt_vm_u32(string + header - back);
        fits |= (UInt)((header + n + 1 == size) | (header + ((n + 4) & ~(ULong)3) == size) << 1)
                << (back == 8 ? 2 : 0);
    }
    if (vm->string_forms & fits)
        vm->string_forms &= fits;
}

static void free_node(void *node)
{
    --*count_of(((struct internal *)node)->block);
    VG_(free)(node);
}

void lt_accounting_end(struct lt_vm *vm)
{
    if (vm->internal)
        VG_(HT_destruct)(vm->internal, free_node);
    vm->internal = NULL;
}
