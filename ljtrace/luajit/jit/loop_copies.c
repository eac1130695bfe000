/* loop_copies.c - repeat the work of the loop optimisation, to find the original of each copy.
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
    uint16_t operand[2];
    uint8_t type, opcode;
};

/* The result for the trace that was analysed last. */
struct result {
    const struct lt_vm *vm;
    uint64_t trace, code;
    uint32_t loop, end;
    uint16_t copy[MAX_REFS];     /* by recorded instruction; 0 = not known */
    uint16_t original[MAX_REFS]; /* by instruction after the loop's start; 0 = not known */
};
TABLE(struct result, s_last, 1);

static struct instruction instruction(const struct lt_ir *ir, uint32_t number)
{
    uint64_t word = program_number(ir->at + IR_BYTES * (uint64_t)number, IR_BYTES);
    return (struct instruction){
        {(uint16_t)word, (uint16_t)(word >> 16)}, word >> 32 & TYPE, (uint8_t)(word >> 40)};
}

static uint16_t copy_of(uint16_t operand)
{
    return operand > FIRST_REF ? s_last->copy[operand - FIRST_REF] : 0;
}

/* Can `copied` be the copy of the operand `recorded`? If the recorded instruction was folded, its copy may be
 * anything, even a constant. */
static bool becomes(uint16_t recorded, uint16_t copied)
{
    uint16_t copy = copy_of(recorded);
    return recorded == copied || (recorded > FIRST_REF && (!copy || copy == copied));
}

static bool become(const struct instruction *recorded, uint16_t first, uint16_t second)
{
    return becomes(recorded->operand[0], first) && becomes(recorded->operand[1], second);
}

/* Can `to` be a copy of `from`? Operands may have been swapped; then a comparison is mirrored. */
static bool is_copy(const struct instruction *from, const struct instruction *to)
{
    uint32_t changed = from->opcode < COMPARISONS ? from->opcode ^ MIRRORED : from->opcode;
    if (from->type != to->type)
        return false;
    return (from->opcode == to->opcode && become(from, to->operand[0], to->operand[1])) ||
           (changed == to->opcode && become(from, to->operand[1], to->operand[0]));
}

/* The next recorded instruction of which this may be a copy; 0 = there is none. */
static uint32_t next_original(const struct lt_ir *ir, uint32_t from, const struct instruction *copy)
{
    for (uint32_t i = from; i < s_last->loop; i++) {
        struct instruction recorded = instruction(ir, i);
        if (is_copy(&recorded, copy))
            return i;
    }
    return 0;
}

static void learn(uint16_t recorded, uint16_t copied)
{
    if (recorded > FIRST_REF && recorded != copied && !copy_of(recorded))
        s_last->copy[recorded - FIRST_REF] = copied;
}

/* Note the copies of a recorded instruction and of its operands, for the instructions that use them. */
static void learn_all(const struct lt_ir *ir, uint32_t found, uint32_t number, const struct instruction *copy)
{
    struct instruction recorded = instruction(ir, found);
    uint32_t first =
        recorded.opcode == copy->opcode && become(&recorded, copy->operand[0], copy->operand[1]) ? 0 : 1;
    learn(recorded.operand[0], copy->operand[first]);
    learn(recorded.operand[1], copy->operand[1 - first]);
    s_last->copy[found - FIRST_REF] = (uint16_t)number;
}

static void find_all(const struct lt_ir *ir)
{
    uint32_t next = FIRST_REF + 1;
    for (uint32_t i = s_last->loop + 1; i < s_last->end; i++) {
        struct instruction copy = instruction(ir, i);
        uint32_t found = next_original(ir, next, &copy);
        s_last->original[i - FIRST_REF] = (uint16_t)found;
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
    for (uint32_t i = 0; i < MAX_REFS; i++)
        s_last->copy[i] = 0;
    if (s_last->loop)
        find_all(&ir);
}

uint32_t lt_copied_from(const struct lt_vm *vm, const struct lt_spot *spot, uint32_t number)
{
    look_at(vm, spot);
    if (s_last->loop == 0 || number < s_last->loop)
        return number;
    if (number == s_last->loop || number >= s_last->end)
        return 0;
    return s_last->original[number - FIRST_REF];
}
