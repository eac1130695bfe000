/* ir.c - read the intermediate instructions of a trace, and find those that create strings.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The numbers of opcodes differ between versions. But the opcodes around the end of a concatenation
 * (allocations, buffers, barriers, conversions, calls: lj_ir.h) have the same order in all versions that
 * compile concatenations. So their numbers follow from that of the end of a concatenation, which traces show.
 * An instruction that was optimised away is replaced by one without a type. A number that is only put into a
 * buffer does not become a string: its conversion remains, but has neither a register nor a stack slot for
 * its result.
 */
#include "ljtrace/luajit/jit/ir.h"

enum {
    IR_BYTES = 8,
    FIRST_REF = 0x8000, /* lower numbers are constants; this one is the base */
    LOOP = 4,           /* its opcode - the base's */
    GUARD = 0x80,       /* bit of the type */
    LITERALS = 32,      /* the second operand of a load, flags or a field, is smaller */
    IR_OPERAND = 0,     /* the first operand; 2 bytes */
    IR_OPERAND_2 = 2,
    IR_TYPE = 4, /* low five bits */
    IR_OPCODE = 5,
    IR_REGISTER = 6, /* NO_REGISTER: none */
    IR_SPILL = 7,    /* stack slot; 0 = none */
    NO_REGISTER = 0x80,
    TYPE_STRING = 4,
    TYPE_ADDRESS_32 = 5,
    TYPE_ADDRESS_64 = 9
};

/* Opcodes relative to the end of a concatenation. Those from STRING_OF_NUMBER on are calls. */
enum { PART_OF_STRING = -8, STRING_OF_MEMORY = -7, STRING_OF_NUMBER = 6 /* and higher: calls */ };

struct lt_ir lt_ir_of(const struct lt_vm *vm, uint64_t trace)
{
    return (struct lt_ir){.at = lt_vm_ref(vm, trace + vm->at->trace_ir),
                          .end = lt_vm_u32(trace + vm->at->trace_nins)};
}

static uint32_t field(const struct lt_ir *ir, uint32_t number, uint32_t offset, uint32_t size)
{
    return (uint32_t)program_number(ir->at + IR_BYTES * (uint64_t)number + offset, size);
}

static uint32_t type_of(const struct lt_ir *ir, uint32_t number)
{
    return field(ir, number, IR_TYPE, 1) & 31;
}

/* The operand of the end is the address of the buffer, which is the result of the last put. */
uint32_t lt_ir_concatenation(const struct lt_ir *ir, uint32_t from, uint32_t to)
{
    uint32_t last = to - 1;
    if (to > ir->end || to < from + 3 || type_of(ir, last) != TYPE_STRING ||
        field(ir, last, IR_OPERAND, 2) != last - 1)
        return 0;
    uint32_t put = type_of(ir, last - 1);
    return put == TYPE_ADDRESS_32 || put == TYPE_ADDRESS_64 ? field(ir, last, IR_OPCODE, 1) : 0;
}

static bool has_result(const struct lt_ir *ir, uint32_t number)
{
    return !(field(ir, number, IR_REGISTER, 1) & NO_REGISTER) || field(ir, number, IR_SPILL, 1);
}

uint32_t lt_ir_strings(const struct lt_ir *ir, uint32_t from, uint32_t to, uint32_t concatenation)
{
    uint32_t count = 0;
    for (uint32_t i = from > FIRST_REF ? from : FIRST_REF + 1; i < to && i < ir->end; i++) {
        int32_t op = (int32_t)field(ir, i, IR_OPCODE, 1) - (int32_t)concatenation;
        if (type_of(ir, i) == TYPE_STRING && has_result(ir, i))
            count += op == 0 || op == PART_OF_STRING || op == STRING_OF_MEMORY || op >= STRING_OF_NUMBER;
    }
    return count;
}

uint32_t lt_ir_loop(const struct lt_ir *ir)
{
    uint32_t loop = (field(ir, FIRST_REF, IR_OPCODE, 1) + LOOP) & 0xff;
    for (uint32_t i = FIRST_REF + 1; i < ir->end; i++)
        if (field(ir, i, IR_OPCODE, 1) == loop && field(ir, i, IR_TYPE, 1) == GUARD &&
            field(ir, i, IR_OPERAND, 4) == 0)
            return i;
    return 0;
}

/* Is this a load that is part of another instruction's code? It has no result of its own. Addresses do not
 * count, since they are not values of the program. */
static bool is_fused_load(const struct lt_ir *ir, uint32_t number)
{
    uint32_t type = type_of(ir, number);
    return number > FIRST_REF && number < ir->end && !has_result(ir, number) && type != TYPE_ADDRESS_32 &&
           type != TYPE_ADDRESS_64 && type && field(ir, number, IR_OPERAND, 2) > FIRST_REF &&
           field(ir, number, IR_OPERAND_2, 2) < LITERALS;
}

uint32_t lt_ir_accessing(const struct lt_ir *ir, uint32_t number)
{
    uint32_t first = field(ir, number, IR_OPERAND, 2), second = field(ir, number, IR_OPERAND_2, 2);
    return is_fused_load(ir, second) ? second : is_fused_load(ir, first) ? first : number;
}
