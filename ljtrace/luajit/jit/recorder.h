/* recorder.h - map each part of a trace to the bytecode that it was recorded from.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * While the compiler records a trace, it executes one bytecode after another and emits intermediate
 * instructions for each. For each trace, these steps are stored: the number of the first intermediate
 * instruction, and the frames that are on the Lua stack. So an intermediate instruction of a finished trace
 * can be attributed to its line and to the functions inlined around it. The trace's own snapshots contain
 * this only for its guards.
 */
#ifndef LJTRACE_LUAJIT_JIT_RECORDER_H
#define LJTRACE_LUAJIT_JIT_RECORDER_H

#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/jit/ir.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A bytecode is about to be recorded. */
void lt_recording_step(struct lt_vm *vm);
/* The same, if the VM has just entered its compiler: the innermost of its frames on the C stack is the compiler's. */
void lt_recording_entered(struct lt_vm *vm);
/* The recording of a trace has ended. If it has only one bytecode, it becomes known only now. */
void lt_recording_done(struct lt_vm *vm);
/* The VM is in the state of recording. Is the code above its frame on the C stack the compiler, and not
 * something that the interpreter has called? */
bool lt_recording_works(const struct lt_vm *vm, uint64_t cframe);

/* What a call from a trace's code creates, as far as its earlier blocks have shown. */
enum lt_makes {
    LT_MAKES_ANYTHING,
    LT_MAKES_TABLES,
    LT_MAKES_ROOM /* of tables */,
    LT_MAKES_STRINGS,
    LT_MAKES_FUNCTIONS
};

/* What to search a trace for. */
struct lt_wanted {
    /* from, to: the range of intermediate instructions */
    uint32_t trace, from, to;
    struct lt_ir ir; /* the instructions of that trace */
    /* the size of the block that was allocated */
    size_t size;
    enum lt_makes makes;
    uint32_t rank;     /* the position of the call among those of the range, in the machine code */
    int32_t base_slot; /* the slot of the base where the trace starts */
};

/* Find the bytecode in the range that creates such a block. The result is its place, followed by the
 * functions that it is inlined in, up to the one at the trace's base. Returns the number of places; 0 =
 * nothing fits. */
uint32_t lt_recording_places(const struct lt_vm *vm, const struct lt_wanted *wanted, struct lt_place *to,
                             uint32_t max);
/* The same for the bytecode from which an intermediate instruction was recorded. */
uint32_t lt_recording_of(const struct lt_vm *vm, uint32_t trace, uint32_t number, int32_t base_slot,
                         struct lt_place *to, uint32_t max);
/* Find the first step at this bytecode whose base is in this slot, relative to the place where the trace
 * starts. *first is its first intermediate instruction. Returns false if there is none. */
bool lt_recording_first(const struct lt_vm *vm, uint32_t trace, uint64_t pc, int32_t slot, uint32_t *first);
/* Can a block of this size be a table or the hash part of one? */
bool lt_recording_is_table(const struct lt_vm *vm, size_t size);
/* A number that changes when more is known about the recording of a trace. */
uint32_t lt_recording_version(const struct lt_vm *vm, uint32_t trace);
/* The number of the first intermediate instruction that may come from the loop optimisation instead of the
 * recording; possibly a higher one. */
uint32_t lt_recording_end(const struct lt_vm *vm, uint32_t trace);

/* Free what is kept of a state when it ends. */
void lt_recording_init(void);

#endif
