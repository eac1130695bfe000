/* trace.h - places in the machine code of traces. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_LUAJIT_JIT_TRACE_H
#define LJTRACE_TOOL_LUAJIT_JIT_TRACE_H

#include "ljtrace/tool/luajit/core/names.h"

/* Find the trace of a state that holds a code address, and tell of it when it is first met. */
Bool lt_trace_spot(const struct lt_vm *vm, Addr ip, struct lt_spot *spot);
/* Is it, found before, where it was? */
Bool lt_trace_still(const struct lt_vm *vm, const struct lt_spot *spot);
/* The state in one of whose traces it is. */
struct lt_vm *lt_trace_owner(Addr ip, struct lt_spot *spot);

/* Tell the line of a code address if it is in a trace; False = it is not. */
Bool lt_trace_name(Addr ip);
/* The same of an instruction that calls: its line is not that of what it loads. */
Bool lt_trace_name_call(Addr ip);

/* Where the snapshot says Lua was: the place itself (approximate: the snapshot is the last before it), and
 * the functions inlined around it, innermost first; how many. The last runs at the base of the trace. */
UInt lt_trace_places(const struct lt_vm *vm, const struct lt_spot *spot, struct lt_place *to, UInt max);
/* The same of a call: of the bytecode that it was recorded for. `size`: of the block that it makes, 0 = none;
 * if the trace's code is not known piece by piece, of the bytecode that makes such a block, if what was
 * recorded tells. */
UInt lt_trace_allocation(const struct lt_vm *vm, const struct lt_spot *spot, SizeT size, struct lt_place *to,
                         UInt max);
/* Changes with what is known of the place and of the calls beside it: so may what is found. */
ULong lt_trace_version(const struct lt_vm *vm, const struct lt_spot *spot, SizeT size);
/* Is it known what is made there, whatever its size? */
Bool lt_trace_is_sure(const struct lt_spot *spot);
/* A block that was asked for there turned out to be of this type (enum mt_type): what is asked for there
 * later is told apart by it. */
void lt_trace_made(const struct lt_spot *spot, UInt type);

#endif
