/* loop_copies.c - repeat the work of the loop optimisation, to find the original of each copy. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The loop optimisation processes the recorded instructions again, in order, replaces their operands by the
 * numbers of the operands' copies, and emits the instructions that are still needed. The copies are found by
 * repeating this: each instruction after the loop's start is a copy of the next recorded instruction with the
 * same opcode, the same type and, as far as their copies are known, the same operands. An instruction that
 * was folded into something else matches none; it belongs between its neighbours.
 */
#include "ljtrace/luajit/jit/loop_copies.h"
#include "ljtrace/protocol/table.h"

enum { IR_BYTES = 8, FIRST_REF = 0x8000, MAX_REFS = 0x8000, TYPE = 0x1f };
enum { COMPARISONS = 8, MIRRORED = 3 }; /* the first opcodes are <, >=, <=, >, twice */

/* An intermediate instruction, without the registers assigned to it. */
struct instruction {
    UShort operand[2];
    UChar type, opcode;
};

/* The result for the trace that was analysed last. */
struct result {
    const struct lt_vm *vm;
    Addr trace, code;
    UInt loop, end;
    UShort copy[MAX_REFS];     /* by recorded instruction; 0 = not known */
    UShort original[MAX_REFS]; /* by instruction after the loop's start; 0 = not known */
};
TABLE(struct result, s_last, 1);

static struct instruction instruction(const struct lt_ir *ir, UInt number)
{
    ULong word = lt_guest_number(ir->at + IR_BYTES * (Addr)number, IR_BYTES);
    return (struct instruction){{(UShort)word, (UShort)(word >> 16)}, word >> 32 & TYPE, (UChar)(word >> 40)};
}

static UShort copy_of(UShort operand)
{
    return operand > FIRST_REF ? s_last->copy[operand - FIRST_REF] : 0;
}

/* Can `copied` be the copy of the operand `recorded`? If the recorded instruction was folded, its copy may be
 * anything, even a constant. */
static Bool becomes(UShort recorded, UShort copied)
{
    UShort copy = copy_of(recorded);
    return recorded == copied || (recorded > FIRST_REF && (!copy || copy == copied));
}

static Bool become(const struct instruction *recorded, UShort first, UShort second)
{
    return becomes(recorded->operand[0], first) && becomes(recorded->operand[1], second);
}

/* Can `to` be a copy of `from`? Operands may have been swapped; then a comparison is mirrored. */
static Bool is_copy(const struct instruction *from, const struct instruction *to)
{
    UInt changed = from->opcode < COMPARISONS ? from->opcode ^ MIRRORED : from->opcode;
    if (from->type != to->type)
        return False;
    return (from->opcode == to->opcode && become(from, to->operand[0], to->operand[1])) ||
           (changed == to->opcode && become(from, to->operand[1], to->operand[0]));
}

/* The next recorded instruction of which this may be a copy; 0 = there is none. */
static UInt next_original(const struct lt_ir *ir, UInt from, const struct instruction *copy)
{
    for (UInt i = from; i < s_last->loop; i++) {
        struct instruction recorded = instruction(ir, i);
        if (is_copy(&recorded, copy))
            return i;
    }
    return 0;
}

static void learn(UShort recorded, UShort copied)
{
    if (recorded > FIRST_REF && recorded != copied && !copy_of(recorded))
        s_last->copy[recorded - FIRST_REF] = copied;
}

/* Note the copies of a recorded instruction and of its operands, for the instructions that use them. */
static void learn_all(const struct lt_ir *ir, UInt found, UInt number, const struct instruction *copy)
{
    struct instruction recorded = instruction(ir, found);
    UInt first =
        recorded.opcode == copy->opcode && become(&recorded, copy->operand[0], copy->operand[1]) ? 0 : 1;
    learn(recorded.operand[0], copy->operand[first]);
    learn(recorded.operand[1], copy->operand[1 - first]);
    s_last->copy[found - FIRST_REF] = (UShort)number;
}

static void find_all(const struct lt_ir *ir)
{
    UInt next = FIRST_REF + 1;
    for (UInt i = s_last->loop + 1; i < s_last->end; i++) {
        struct instruction copy = instruction(ir, i);
        UInt found = next_original(ir, next, &copy);
        s_last->original[i - FIRST_REF] = (UShort)found;
        if (!found)
            continue;
        learn_all(ir, found, i, &copy);
        next = found + 1;
    }
}

static void look_at(const struct lt_vm *vm, const struct lt_spot *spot)
{
    struct lt_ir ir = lt_ir_of(vm, spot->trace);
    if (s_last->vm == vm && s_last->trace == spot->trace && s_last->code == spot->code)
        return;
    s_last->vm = vm;
    s_last->trace = spot->trace;
    s_last->code = spot->code;
    s_last->loop = lt_ir_loop(&ir);
    s_last->end = s_last->loop && ir.end < FIRST_REF + MAX_REFS ? ir.end : s_last->loop;
    for (UInt i = 0; i < MAX_REFS; i++)
        s_last->copy[i] = 0;
    if (s_last->loop)
        find_all(&ir);
}

UInt lt_copied_from(const struct lt_vm *vm, const struct lt_spot *spot, UInt number)
{
    look_at(vm, spot);
    if (s_last->loop == 0 || number < s_last->loop)
        return number;
    if (number == s_last->loop || number >= s_last->end)
        return 0;
    return s_last->original[number - FIRST_REF];
}
