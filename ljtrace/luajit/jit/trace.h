/* trace.h - find places in the machine code of traces, and their Lua lines.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The main file of this folder. Begin at name_code (accesses) and lt_trace_allocation (blocks), in
 * trace.c.
 */
#ifndef LJTRACE_LUAJIT_JIT_TRACE_H
#define LJTRACE_LUAJIT_JIT_TRACE_H

#include "ljtrace/luajit/core/names.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Find the trace of a state that contains a code address. A trace that is found for the first time is written
 * into the ring. */
bool lt_trace_spot(const struct lt_vm *vm, uint64_t ip, struct lt_spot *spot);
/* Is a spot that was found before still valid? */
bool lt_trace_still(const struct lt_vm *vm, const struct lt_spot *spot);

/* If the code address is in a trace, write its Lua line into the ring, else return false. For an instruction that calls,
 * the line is that of the call; for any other, that of the operand that it loads. */
bool lt_trace_name_access(uint64_t ip);
bool lt_trace_name_call(uint64_t ip);

/* The places of a call, as the bytecode that it was recorded from. size: that of the block that it allocates,
 * 0 = none. If the mapping of the trace's code is not known, the recorded steps are searched for a bytecode
 * that creates a block of that size. */
uint32_t lt_trace_allocation(const struct lt_vm *vm, const struct lt_spot *spot, size_t size,
                             struct lt_place *to, uint32_t max);
/* A number that changes when more is known about the place and the calls beside it, so that
 * lt_trace_allocation may find something else. */
uint64_t lt_trace_version(const struct lt_vm *vm, const struct lt_spot *spot, size_t size);
/* Is it known what is created there, whatever its size? */
bool lt_trace_is_sure(const struct lt_spot *spot);
/* A block that was allocated there turned out to have this type (enum mt_type). Later allocations there are
 * distinguished by it. */
void lt_trace_made(const struct lt_spot *spot, uint32_t type);

/* Forget which traces were written. */
void lt_traces_forget(void);

#endif
