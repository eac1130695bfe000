/* accounting.h - how many bytes a Lua state holds, and which of its blocks are not objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A state's internal blocks (string table, buffers, the compiler's) are few; only these are stored one by
 * one. All numbers come from the allocator's calls, not from the state's own counters, so a snapshot can
 * check its sums against them.
 */
#ifndef LJTRACE_LUAJIT_CORE_ACCOUNTING_H
#define LJTRACE_LUAJIT_CORE_ACCOUNTING_H

#include "ljtrace/luajit/core/states.h"
#include <stddef.h>
#include <stdint.h>

/* A state has allocated a block. */
void lt_accounting_made(struct lt_vm *vm, size_t size);
/* A state frees a block. */
void lt_accounting_gone(struct lt_vm *vm, uint64_t block, size_t size);
/* A state has resized a block. */
void lt_accounting_moved(struct lt_vm *vm, uint64_t old, size_t old_size, uint64_t block, size_t size);
/* This block is, as far as is known, neither an object nor a part of one. */
void lt_accounting_internal(struct lt_vm *vm, uint64_t block, size_t size);
/* A snapshot has found that this block is an object or a part of one. */
void lt_accounting_claim(struct lt_vm *vm, uint64_t block);
/* Bytes in blocks that are not objects. */
uint64_t lt_accounting_internal_bytes(const struct lt_vm *vm);
/* A string was allocated: learn how this build computes the size of strings. */
void lt_accounting_learn_string(struct lt_vm *vm, uint64_t string, size_t size);
/* The state has ended. */
void lt_accounting_end(struct lt_vm *vm);

#endif
