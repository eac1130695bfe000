/* recorder.h - which bytecode each part of a trace was recorded from. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * While the compiler records, it executes one bytecode after the other and emits intermediate instructions
 * for each. Both counts, and the frames that are on the Lua stack then, are kept for each trace: so an
 * intermediate instruction of a finished trace can be led back to its line and to the functions inlined
 * around it, which the trace's own snapshots tell only for its guards.
 */
#ifndef LJTRACE_TOOL_LUAJIT_JIT_RECORDER_H
#define LJTRACE_TOOL_LUAJIT_JIT_RECORDER_H

#include "ljtrace/tool/luajit/core/names.h"
#include "ljtrace/tool/luajit/jit/ir.h"

/* A bytecode is about to be recorded. */
void lt_recording_step(struct lt_vm *vm);
/* The trace has been recorded: one of a single bytecode is known only now. */
void lt_recording_done(struct lt_vm *vm);
void lt_recording_free(struct lt_vm *vm);
/* The machine is in the state of recording: is it the compiler that works above the machine's frame on the C
 * stack, not what the interpreter has called? */
Bool lt_recording_works(const struct lt_vm *vm, Addr cframe);

/* What a call from a trace's code makes, as far as blocks made there before have told. */
enum lt_makes {
    LT_MAKES_ANYTHING,
    LT_MAKES_TABLES,
    LT_MAKES_ROOM /* of tables */,
    LT_MAKES_STRINGS,
    LT_MAKES_FUNCTIONS
};

/* What to look for in a trace: a range of intermediate instructions, and the size of the block that is made.
 */
struct lt_wanted {
    UInt trace, from, to;
    struct lt_ir ir; /* of the trace */
    SizeT size;
    enum lt_makes makes;
    UInt rank;     /* of the call in the machine code, among those of the range */
    Int base_slot; /* of the place where the trace starts */
};

/* The places of the bytecode in that range that makes such a block: it, then the functions it is inlined in,
 * to the one at the trace's base; 0 = nothing fits. */
UInt lt_recording_places(const struct lt_vm *vm, const struct lt_wanted *wanted, struct lt_place *to,
                         UInt max);
/* The places of the bytecode that an intermediate instruction was recorded for, in the same way. */
UInt lt_recording_of(const struct lt_vm *vm, UInt trace, UInt number, Int base_slot, struct lt_place *to,
                     UInt max);
/* The first intermediate instruction of the first step at that bytecode, whose base is in that slot relative
 * to the place where the trace starts. False = there is none. */
Bool lt_recording_first(const struct lt_vm *vm, UInt trace, Addr pc, Int slot, UInt *first);
/* Does a block of that size look like a table or its hash part? */
Bool lt_recording_is_table(const struct lt_vm *vm, SizeT size);
/* Changes with what is known of a trace's recording. */
UInt lt_recording_version(const struct lt_vm *vm, UInt trace);
/* The first intermediate instruction that was not recorded but made by the loop optimisation, or more. */
UInt lt_recording_end(const struct lt_vm *vm, UInt trace);

#endif
