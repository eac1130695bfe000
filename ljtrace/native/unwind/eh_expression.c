/* eh_expression.c - evaluate DWARF expressions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/unwind/eh_expression.h"

enum { MOST_VALUES = 16, MOST_STEPS = 256 };

/* DW_OP_ */
enum {
    OP_ADDR = 0x03,
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONST1S,
    OP_CONST2U,
    OP_CONST2S,
    OP_CONST4U,
    OP_CONST4S,
    OP_CONST8U,
    OP_CONST8S,
    OP_CONSTU = 0x10,
    OP_CONSTS,
    OP_DUP,
    OP_DROP,
    OP_OVER,
    OP_PICK,
    OP_SWAP,
    OP_ROT,
    OP_ABS = 0x19,
    OP_AND,
    OP_DIV,
    OP_MINUS,
    OP_MOD,
    OP_MUL,
    OP_NEG,
    OP_NOT,
    OP_OR,
    OP_PLUS,
    OP_PLUS_UCONST,
    OP_SHL,
    OP_SHR,
    OP_SHRA,
    OP_XOR,
    OP_BRA,
    OP_EQ,
    OP_GE,
    OP_GT,
    OP_LE,
    OP_LT,
    OP_NE,
    OP_SKIP,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
    OP_DEREF_SIZE = 0x94,
    OP_NOP = 0x96
};

struct evaluation {
    struct eh_bytes bytes;
    const uint8_t *begin;
    const struct eh_registers *registers;
    struct stack_memory *memory;
    uint64_t values[MOST_VALUES];
    unsigned depth;
    bool failed;
};

static void push(struct evaluation *e, uint64_t value)
{
    if (e->depth == MOST_VALUES)
        e->failed = true;
    else
        e->values[e->depth++] = value;
}

static uint64_t pop(struct evaluation *e)
{
    if (e->depth == 0) {
        e->failed = true;
        return 0;
    }
    return e->values[--e->depth];
}

/* The value `index` below the top. */
static uint64_t pick(struct evaluation *e, uint64_t index)
{
    if (index >= e->depth) {
        e->failed = true;
        return 0;
    }
    return e->values[e->depth - 1 - index];
}

static void push_register(struct evaluation *e, uint64_t reg, int64_t offset)
{
    if (reg >= EH_REGISTERS || !(e->registers->known >> reg & 1))
        e->failed = true;
    else
        push(e, e->registers->value[reg] + (uint64_t)offset);
}

static void push_memory(struct evaluation *e, uint64_t address, unsigned size)
{
    uint64_t word = 0;
    if (size == 0 || size > 8 || !stack_memory_read(e->memory, address, &word))
        e->failed = true;
    else
        push(e, size == 8 ? word : word & ((1ULL << size * 8) - 1));
}

static void jump(struct evaluation *e, int64_t distance)
{
    if (distance < e->begin - e->bytes.at || distance > e->bytes.end - e->bytes.at)
        e->failed = true;
    else
        e->bytes.at += distance;
}

/* Operators with two operands, `a` below `b`. */
static uint64_t combine(struct evaluation *e, uint8_t op, uint64_t a, uint64_t b)
{
    const int64_t sa = (int64_t)a, sb = (int64_t)b;
    if ((op == OP_DIV || op == OP_MOD) && b == 0) {
        e->failed = true;
        return 0;
    }
    switch (op) {
    case OP_AND:
        return a & b;
    case OP_DIV:
        return sb == -1 ? -a : (uint64_t)(sa / sb);
    case OP_MINUS:
        return a - b;
    case OP_MOD:
        return a % b;
    case OP_MUL:
        return a * b;
    case OP_OR:
        return a | b;
    case OP_PLUS:
        return a + b;
    case OP_SHL:
        return b < 64 ? a << b : 0;
    case OP_SHR:
        return b < 64 ? a >> b : 0;
    case OP_SHRA:
        return (uint64_t)(sa >> (b < 64 ? b : 63));
    case OP_XOR:
        return a ^ b;
    case OP_EQ:
        return a == b;
    case OP_GE:
        return sa >= sb;
    case OP_GT:
        return sa > sb;
    case OP_LE:
        return sa <= sb;
    case OP_LT:
        return sa < sb;
    case OP_NE:
        return a != b;
    default:
        e->failed = true;
        return 0;
    }
}

/* Constants: the size is in the number of the operation, and so is the sign. */
static void push_constant(struct evaluation *e, uint8_t op)
{
    const unsigned size = 1u << (op - OP_CONST1U) / 2;
    push(e, (op - OP_CONST1U) % 2 ? (uint64_t)eh_read_signed(&e->bytes, size) : eh_read(&e->bytes, size));
}

/* Operations that reorder the stack, jump, or have one operand on it. */
static void operate(struct evaluation *e, uint8_t op)
{
    uint64_t a, b, c;
    switch (op) {
    case OP_ADDR:
        push(e, eh_read(&e->bytes, 8));
        break;
    case OP_DEREF:
        push_memory(e, pop(e), 8);
        break;
    case OP_DEREF_SIZE:
        push_memory(e, pop(e), (unsigned)eh_read(&e->bytes, 1));
        break;
    case OP_CONSTU:
        push(e, eh_read_uleb(&e->bytes));
        break;
    case OP_CONSTS:
        push(e, (uint64_t)eh_read_sleb(&e->bytes));
        break;
    case OP_DUP:
        push(e, pick(e, 0));
        break;
    case OP_DROP:
        pop(e);
        break;
    case OP_OVER:
        push(e, pick(e, 1));
        break;
    case OP_PICK:
        push(e, pick(e, eh_read(&e->bytes, 1)));
        break;
    case OP_SWAP:
        b = pop(e), a = pop(e);
        push(e, b), push(e, a);
        break;
    case OP_ROT:
        c = pop(e), b = pop(e), a = pop(e);
        push(e, c), push(e, a), push(e, b);
        break;
    case OP_ABS:
        a = pop(e);
        push(e, (int64_t)a < 0 ? -a : a);
        break;
    case OP_NEG:
        push(e, -pop(e));
        break;
    case OP_NOT:
        push(e, ~pop(e));
        break;
    case OP_PLUS_UCONST:
        a = pop(e);
        push(e, a + eh_read_uleb(&e->bytes));
        break;
    case OP_BRA: {
        const int64_t distance = eh_read_signed(&e->bytes, 2);
        if (pop(e))
            jump(e, distance);
        break;
    }
    case OP_SKIP:
        jump(e, eh_read_signed(&e->bytes, 2));
        break;
    case OP_BREGX:
        a = eh_read_uleb(&e->bytes);
        push_register(e, a, eh_read_sleb(&e->bytes));
        break;
    case OP_NOP:
        break;
    default:
        b = pop(e), a = pop(e);
        push(e, combine(e, op, a, b));
    }
}

bool eh_evaluate(struct eh_bytes expression, const struct eh_registers *registers,
                 struct stack_memory *memory, const uint64_t *first, uint64_t *result)
{
    const struct eh_bytes block = eh_read_block(&expression);
    struct evaluation e = {.bytes = block, .begin = block.at, .registers = registers, .memory = memory};
    if (first)
        push(&e, *first);
    for (unsigned step = 0; e.bytes.at < e.bytes.end; step++) {
        const uint8_t op = (uint8_t)eh_read(&e.bytes, 1);
        if (op >= OP_LIT0 && op <= OP_LIT31)
            push(&e, op - OP_LIT0);
        else if (op >= OP_BREG0 && op <= OP_BREG31)
            push_register(&e, op - OP_BREG0, eh_read_sleb(&e.bytes));
        else if (op >= OP_CONST1U && op <= OP_CONST8S)
            push_constant(&e, op);
        else
            operate(&e, op);
        if (e.failed || e.bytes.bad || step == MOST_STEPS)
            return false;
    }
    *result = pop(&e);
    return !e.failed && !block.bad;
}
