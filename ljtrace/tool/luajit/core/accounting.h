/* accounting.h - what a Lua state holds, in bytes, and which of its blocks are no objects. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Only the few internal blocks of a state (string table, buffers, the compiler's) are kept one by one. A
 * snapshot checks its sums against this: it comes from the allocator's calls, not from the state's own
 * counters.
 */
#ifndef LJTRACE_TOOL_LUAJIT_CORE_ACCOUNTING_H
#define LJTRACE_TOOL_LUAJIT_CORE_ACCOUNTING_H

#include "ljtrace/tool/luajit/core/states.h"

void lt_heap_made(struct lt_vm *vm, SizeT size);
void lt_heap_gone(struct lt_vm *vm, Addr block, SizeT size);
void lt_heap_moved(struct lt_vm *vm, Addr old, SizeT old_size, Addr block, SizeT size);
/* The block is neither an object nor a part of one, as far as can be told. */
void lt_heap_internal(struct lt_vm *vm, Addr block, SizeT size);
/* It is an object or a part of one, a snapshot found. */
void lt_heap_claim(struct lt_vm *vm, Addr block);
ULong lt_heap_internal_bytes(const struct lt_vm *vm);
/* A string was made: how this build rounds sizes. */
void lt_heap_learn_string(struct lt_vm *vm, Addr string, SizeT size);
void lt_heap_end(struct lt_vm *vm);

#endif
