/* accounting.c - count the bytes of each Lua state, and keep its blocks that are not objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/table.h"

enum { CHAINS = 1024 };

/* An internal block. */
struct internal {
    struct internal *next;
    uint64_t block;
    size_t size;
};

/* The internal blocks of a state, by a hash of their addresses. */
struct lt_internals {
    struct internal *chain[CHAINS];
};

enum { COUNTS = 4096 };

/* Number of internal blocks by hash: most blocks that are freed are not internal, so most look-ups end
 * here. */
LASTING_TABLE(uint32_t, s_count, COUNTS);

static uint32_t *count_of(uint64_t block)
{
    return &s_count[block / 16 % COUNTS];
}

static struct internal **chain_of(struct lt_internals *all, uint64_t block)
{
    return &all->chain[lt_hash_slot(block, 10)];
}

/* Take a block out of its chain. Returns NULL if it is not internal. */
static struct internal *internal_take(struct lt_internals *all, uint64_t block)
{
    struct internal **at = chain_of(all, block);
    while (*at && (*at)->block != block)
        at = &(*at)->next;
    struct internal *found = *at;
    if (found)
        *at = found->next;
    return found;
}

void lt_accounting_made(struct lt_vm *vm, size_t size)
{
    vm->live_bytes += size;
}

static size_t internal_forget(struct lt_vm *vm, uint64_t block)
{
    struct internal *i = vm->internal && *count_of(block) ? internal_take(vm->internal, block) : NULL;
    if (!i)
        return 0;
    size_t size = i->size;
    vm->internal_bytes -= size;
    --*count_of(block);
    host_free(i);
    return size;
}

void lt_accounting_gone(struct lt_vm *vm, uint64_t block, size_t size)
{
    vm->live_bytes -= size;
    internal_forget(vm, block);
}

void lt_accounting_internal(struct lt_vm *vm, uint64_t block, size_t size)
{
    if (!vm->internal)
        vm->internal = host_new(sizeof *vm->internal);
    internal_forget(vm, block);
    struct internal **chain = chain_of(vm->internal, block), *i = host_new(sizeof *i);
    *i = (struct internal){.next = *chain, .block = block, .size = size};
    *chain = i;
    ++*count_of(block);
    vm->internal_bytes += size;
}

void lt_accounting_moved(struct lt_vm *vm, uint64_t old, size_t old_size, uint64_t block, size_t size)
{
    vm->live_bytes += size - old_size;
    if (internal_forget(vm, old))
        lt_accounting_internal(vm, block, size);
}

void lt_accounting_claim(struct lt_vm *vm, uint64_t block)
{
    if (block)
        internal_forget(vm, block);
}

uint64_t lt_accounting_internal_bytes(const struct lt_vm *vm)
{
    return vm->internal_bytes;
}

/* Find the ways to compute a string's size that fit all strings so far. Bits 0 and 1: the length is stored 4
 * bytes before the text, and the size is not rounded (0) or rounded (1). Bits 2 and 3: the same with the
 * length 8 bytes before. */
void lt_accounting_learn_string(struct lt_vm *vm, uint64_t string, size_t size)
{
    uint32_t header = vm->layout->string_header, fits = 0;
    if ((vm->string_forms & (vm->string_forms - 1)) == 0)
        return;
    for (uint32_t back = 4; back <= 8; back += 4) {
        uint64_t n = lt_vm_u32(string + header - back);
        fits |= (uint32_t)((header + n + 1 == size) | (header + ((n + 4) & ~(uint64_t)3) == size) << 1)
                << (back == 8 ? 2 : 0);
    }
    if (vm->string_forms & fits)
        vm->string_forms &= fits;
}

static void free_chain(struct internal *i)
{
    while (i) {
        struct internal *next = i->next;
        --*count_of(i->block);
        host_free(i);
        i = next;
    }
}

void lt_accounting_end(struct lt_vm *vm)
{
    for (uint32_t i = 0; vm->internal && i < CHAINS; i++)
        free_chain(vm->internal->chain[i]);
    host_free(vm->internal);
    vm->internal = NULL;
}
