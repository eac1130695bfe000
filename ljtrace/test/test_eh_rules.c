/* test_eh_rules.c - tests of what each instruction of .eh_frame and each operation of its expressions means.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sections are made here: one CIE, the FDE of one function, and a header without a table. The expected values follow
 * from DWARF 5, sections 2.5 and 6.4.2. The words into which rules are packed are those of functions below, whose rules the
 * assembler writes.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "ljtrace/frames/eh_frame.h"
#include "ljtrace/native/unwind/eh_expression.h"
#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/native/unwind/unwind.h"

enum {
    CODE = 0x10000,
    CODE_BYTES = 0x100000,
    MOST_BYTES = 256,
    DATA_UNIT = -8,
    PE_ABSOLUTE = 0,
    PE_OMIT = 0xff
};

/* What the CIE does before all: CFA = rsp + 8, return address at CFA - 8, rbx at CFA - 16. */
#define COMMON 0x0c, 7, 8, 0x90, 1, 0x83, 2

struct made {
    uint8_t frames[MOST_BYTES], header[16];
    struct eh_sections sections;
};

static uint8_t *put(uint8_t *at, uint64_t value, unsigned size)
{
    memcpy(at, &value, size);
    return at + size;
}

/* Make sections whose function has these instructions. code_unit: of the CIE. */
static void make(struct made *m, uint8_t code_unit, const uint8_t *own, unsigned size)
{
    static const uint8_t common[] = {COMMON};
    memset(m, 0, sizeof *m);
    uint8_t *at = m->frames + 4;
    at = put(at, 0, 4); /* a CIE */
    at = put(at, 1, 1); /* its version */
    at = put(at, 0, 1); /* no augmentation */
    at = put(at, code_unit, 1);
    at = put(at, DATA_UNIT & 0x7f, 1);
    at = put(at, EH_RIP, 1);
    memcpy(at, common, sizeof common);
    at += sizeof common;
    put(m->frames, (uint64_t)(at - m->frames - 4), 4);
    uint8_t *const entry = at;
    at = put(entry + 4, (uint64_t)(entry + 4 - m->frames), 4);
    at = put(at, CODE, 8);
    at = put(at, CODE_BYTES, 8);
    assert_true(at + size + 4 <= m->frames + MOST_BYTES);
    memcpy(at, own, size);
    at += size;
    put(entry, (uint64_t)(at - entry - 4), 4);
    const uint8_t *const frames = m->frames;
    m->header[0] = 1;
    m->header[1] = PE_ABSOLUTE;
    m->header[2] = m->header[3] = PE_OMIT;
    memcpy(m->header + 4, &frames, sizeof frames);
    m->sections = (struct eh_sections){m->header, m->header + sizeof m->header, m->frames, at + 4};
}

#define MAKE(m, code_unit, ...)                                                                              \
    make(m, code_unit, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void assert_rule(const struct eh_rule *rule, enum eh_how how, uint8_t reg, int32_t offset)
{
    assert_int_equal(rule->how, how);
    assert_int_equal(rule->reg, reg);
    assert_int_equal(rule->offset, offset);
}

/* The offset of the CFA so many bytes after the function's begin. */
static int32_t cfa_after(const struct made *m, uint64_t bytes)
{
    struct eh_rules r;
    assert_true(eh_frame_rules(&m->sections, CODE + bytes, &r));
    return r.cfa.offset;
}

/* Each way to advance, in units of 3 bytes: the offset becomes 16, 24, 32, 40 and 48. */
static void advances(void **state)
{
    struct made m;
    struct eh_rules r;
    static const uint32_t at[] = {2, 2 + 0x90, 2 + 0x90 + 0x305, 2 + 0x90 + 0x305 + 0x10203};
    (void)state;
    MAKE(&m, 3, 0x42, 0x0e, 16, 0x02, 0x90, 0x0e, 24, 0x03, 0x05, 0x03, 0x0e, 32, 0x04, 0x03, 0x02, 0x01,
         0x00, 0x0e, 40, 0x01, 0xf0, 0xff, 0x10, 0, 0, 0, 0, 0, 0x0e, 48);
    assert_int_equal(cfa_after(&m, 0), 8);
    for (unsigned i = 0; i < sizeof at / sizeof at[0]; i++) {
        assert_int_equal(cfa_after(&m, 3 * at[i] - 1), 8 + 8 * i);
        assert_int_equal(cfa_after(&m, 3 * at[i]), 16 + 8 * i);
    }
    assert_int_equal(cfa_after(&m, 0x10fff0 - CODE - 1), 40);
    assert_int_equal(cfa_after(&m, 0x10fff0 - CODE), 48);
    assert_true(eh_frame_rules(&m.sections, CODE + CODE_BYTES - 1, &r));
    assert_false(eh_frame_rules(&m.sections, CODE + CODE_BYTES, &r));
    assert_false(eh_frame_rules(&m.sections, CODE - 1, &r));
}

static void rules_of_the_common_entry(void **state)
{
    struct made m;
    struct eh_rules r;
    uint64_t begin, end;
    (void)state;
    MAKE(&m, 1, 0x00);
    assert_true(eh_frame_rules(&m.sections, CODE, &r));
    assert_rule(&r.cfa, EH_IN_REGISTER, EH_RSP, 8);
    assert_rule(&r.registers[EH_RIP], EH_SAVED, 0, -8);
    assert_rule(&r.registers[EH_RBX], EH_SAVED, 0, -16);
    assert_rule(&r.registers[EH_RSP], EH_VALUE, 0, 0);
    assert_rule(&r.registers[EH_RBP], EH_SAME, 0, 0);
    assert_int_equal(r.return_address, EH_RIP);
    assert_false(r.is_signal_frame);
    assert_true(eh_frame_function(&m.sections, CODE + 1, &begin, &end));
    assert_true(begin == CODE && end == CODE + CODE_BYTES);
}

static void rules_of_registers(void **state)
{
    struct made m;
    struct eh_rules r;
    (void)state;
    MAKE(&m, 1, 0x05, 0, 4,      /* offset_extended: rax at CFA - 32 */
         0x11, 1, 0x7d,          /* the same signed: rdx at CFA + 24 */
         0x2f, 2, 2,             /* negative, as of old: rcx at CFA + 16 */
         0x14, 4, 3,             /* val_offset: rsi is CFA - 24 */
         0x15, 5, 0x7e,          /* the same signed: rdi is CFA + 16 */
         0x07, 6,                /* rbp undefined */
         0x83, 5, 0xc3,          /* rbx at CFA - 40, then restored */
         0x08, 8,                /* r8 the same */
         0x09, 9, 12,            /* r9 in r12 */
         0x09, 10, 30,           /* r10 in a register that does not count */
         0x86 + 5, 6, 0x08, 11,  /* r11 at CFA - 48, then the same */
         0x2e, 9,                /* the size of arguments */
         0x85 + 8, 7, 0x06, 13); /* r13 at CFA - 56, then restored */
    assert_true(eh_frame_rules(&m.sections, CODE, &r));
    assert_rule(&r.registers[0], EH_SAVED, 0, -32);
    assert_rule(&r.registers[1], EH_SAVED, 0, 24);
    assert_rule(&r.registers[2], EH_SAVED, 0, 16);
    assert_rule(&r.registers[EH_RBX], EH_SAVED, 0, -16);
    assert_rule(&r.registers[4], EH_VALUE, 0, -24);
    assert_rule(&r.registers[5], EH_VALUE, 0, 16);
    assert_rule(&r.registers[EH_RBP], EH_UNDEFINED, 0, 0);
    assert_rule(&r.registers[8], EH_SAME, 0, 0);
    assert_rule(&r.registers[9], EH_IN_REGISTER, 12, 0);
    assert_rule(&r.registers[10], EH_IN_REGISTER, EH_REGISTERS, 0);
    assert_rule(&r.registers[11], EH_SAME, 0, 0);
    assert_rule(&r.registers[13], EH_SAME, 0, 0);
    assert_int_equal(r.return_address, EH_RIP);
    assert_false(r.is_signal_frame);
}

/* Vector registers have rules, too, which change nothing else. */
static void other_registers_are_ignored(void **state)
{
    struct made m;
    struct eh_rules plain, r;
    (void)state;
    memset(&plain, 0, sizeof plain);
    memset(&r, 0, sizeof r);
    MAKE(&m, 1, 0x00);
    assert_true(eh_frame_rules(&m.sections, CODE, &plain));
    MAKE(&m, 1, 0x91, 3, 0x05, 17, 9, 0x07, 17, 0x08, 18, 0x14, 17, 3, 0x09, 17, 2, 0x06, 17, 0xd1, 0x10, 17,
         1, 0x77, 0);
    assert_true(eh_frame_rules(&m.sections, CODE, &r));
    assert_memory_equal(&r, &plain, sizeof r);
}

static void rules_of_the_frame_address(void **state)
{
    struct made m;
    struct eh_rules r;
    (void)state;
    MAKE(&m, 1, 0x0c, 6, 16, 0x41, 0x0d, 3, 0x41, 0x0e, 0x20, 0x41, 0x12, 7, 0x7d, 0x41, 0x13, 0x7b, 0x41,
         0x0f, 2, 0x77, 8);
    static const struct {
        uint8_t reg;
        int32_t offset;
    } expected[] = {{6, 16}, {3, 16}, {3, 32}, {7, 24}, {7, 40}};
    for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_true(eh_frame_rules(&m.sections, CODE + i, &r));
        assert_rule(&r.cfa, EH_IN_REGISTER, expected[i].reg, expected[i].offset);
    }
    assert_true(eh_frame_rules(&m.sections, CODE + 5, &r));
    assert_int_equal(r.cfa.how, EH_COMPUTED);
    const uint8_t *at = m.sections.frames_begin + r.cfa.offset;
    assert_true(at[0] == 2 && at[1] == 0x77 && at[2] == 8);
    MAKE(&m, 1, 0x0d, 17); /* no register that counts */
    assert_false(eh_frame_rules(&m.sections, CODE, &r));
}

static void expressions_of_registers(void **state)
{
    struct made m;
    struct eh_rules r;
    (void)state;
    MAKE(&m, 1, 0x10, 6, 2, 0x77, 0x10, 0x16, 12, 1, 0x30, 0x0e, 32);
    assert_true(eh_frame_rules(&m.sections, CODE, &r));
    assert_int_equal(r.registers[EH_RBP].how, EH_SAVED_AT);
    assert_int_equal(m.sections.frames_begin[r.registers[EH_RBP].offset + 1], 0x77);
    assert_int_equal(r.registers[EH_R12].how, EH_COMPUTED);
    assert_int_equal(m.sections.frames_begin[r.registers[EH_R12].offset + 1], 0x30);
    assert_int_equal(r.cfa.offset, 32);
}

/* Rules that are remembered come back in the reverse order, as often as compilers nest them. */
static void remembered_rules(void **state)
{
    struct made m;
    struct eh_rules r;
    static const int32_t expected[] = {16, 24, 16, 8};
    static const uint8_t remember[9] = {10, 10, 10, 10, 10, 10, 10, 10, 10};
    (void)state;
    MAKE(&m, 1, 0x0a, 0x0e, 16, 0x0a, 0x41, 0x0e, 24, 0x41, 0x0b, 0x41, 0x0b);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(cfa_after(&m, i), expected[i]);
    MAKE(&m, 1, 0x0b);
    assert_false(eh_frame_rules(&m.sections, CODE, &r));
    make(&m, 1, remember, 8);
    assert_true(eh_frame_rules(&m.sections, CODE, &r));
    make(&m, 1, remember, 9);
    assert_false(eh_frame_rules(&m.sections, CODE, &r));
}

static void unknown_instructions(void **state)
{
    struct made m;
    struct eh_rules r;
    (void)state;
    MAKE(&m, 1, 0x0e, 16, 0x41, 0x3f); /* it does not matter before it is reached */
    assert_int_equal(cfa_after(&m, 0), 16);
    assert_false(eh_frame_rules(&m.sections, CODE + 1, &r));
    MAKE(&m, 1, 0x0e); /* without its operand */
    assert_false(eh_frame_rules(&m.sections, CODE, &r));
}

/* -- expressions -- */

static uint64_t s_memory[2] = {0x1122334455667788, 0x99aabbccddeeff00};

/* Evaluate operations with rbp (6) = the address of s_memory, and r12 = 100. */
static bool evaluate(const uint8_t *operations, unsigned size, const uint64_t *first, uint64_t *value)
{
    const uint64_t low = (uint64_t)(uintptr_t)s_memory;
    struct eh_registers registers = {.known = 1u << EH_RBP | 1u << EH_R12};
    struct stack_memory memory = {low, low + sizeof s_memory, 0};
    uint8_t bytes[MOST_BYTES] = {(uint8_t)size};
    registers.value[EH_RBP] = low;
    registers.value[EH_R12] = 100;
    memcpy(bytes + 1, operations, size);
    return eh_evaluate((struct eh_bytes){bytes, bytes + 1 + size, false}, &registers, &memory, first, value);
}

#define ASSERT_VALUE(expected, ...)                                                                          \
    do {                                                                                                     \
        uint64_t value_ = 0;                                                                                 \
        assert_true(evaluate((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), NULL,   \
                             &value_));                                                                      \
        assert_true(value_ == (uint64_t)(expected));                                                         \
    } while (0)

#define ASSERT_NO_VALUE(...)                                                                                 \
    do {                                                                                                     \
        uint64_t value_ = 0;                                                                                 \
        assert_false(evaluate((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), NULL,  \
                              &value_));                                                                     \
    } while (0)

static void constants(void **state)
{
    (void)state;
    ASSERT_VALUE(0, 0x30);
    ASSERT_VALUE(31, 0x4f);
    ASSERT_VALUE(0xfe, 0x08, 0xfe);
    ASSERT_VALUE(-2, 0x09, 0xfe);
    ASSERT_VALUE(0xfedc, 0x0a, 0xdc, 0xfe);
    ASSERT_VALUE((int16_t)0xfedc, 0x0b, 0xdc, 0xfe);
    ASSERT_VALUE(0xfedcba98u, 0x0c, 0x98, 0xba, 0xdc, 0xfe);
    ASSERT_VALUE((int32_t)0xfedcba98, 0x0d, 0x98, 0xba, 0xdc, 0xfe);
    ASSERT_VALUE(0xfedcba9876543210u, 0x0e, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe);
    ASSERT_VALUE(0xfedcba9876543210u, 0x0f, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe);
    ASSERT_VALUE(0x0123456789abcdefu, 0x03, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01);
    ASSERT_VALUE(624485, 0x10, 0xe5, 0x8e, 0x26);
    ASSERT_VALUE(-123456, 0x11, 0xc0, 0xbb, 0x78);
    ASSERT_VALUE(100 + 5, 0x7c, 5);
    ASSERT_VALUE(100 - 2, 0x92, 12, 0x7e);
    ASSERT_NO_VALUE(0x73, 0);     /* rbx is not known */
    ASSERT_NO_VALUE(0x92, 17, 0); /* no register that counts */
    ASSERT_NO_VALUE(0x0a, 0xdc);  /* its operand is cut */
}

static void words_of_memory(void **state)
{
    (void)state;
    ASSERT_VALUE(0x1122334455667788, 0x76, 0, 0x06);
    ASSERT_VALUE(0x99aabbccddeeff00, 0x76, 8, 0x06);
    ASSERT_VALUE(0x88, 0x76, 0, 0x94, 1);
    ASSERT_VALUE(0x55667788, 0x76, 0, 0x94, 4);
    ASSERT_VALUE(0x1122334455667788, 0x76, 0, 0x94, 8);
    ASSERT_NO_VALUE(0x76, 0, 0x94, 0);
    ASSERT_NO_VALUE(0x76, 0, 0x94, 9);
    ASSERT_NO_VALUE(0x31, 0x06); /* address 1 */
}

/* Operations that reorder the stack: the values below the top are seen by dropping. */
static void order_of_values(void **state)
{
    (void)state;
    ASSERT_VALUE(4, 0x32, 0x12, 0x22); /* dup, plus */
    ASSERT_VALUE(1, 0x31, 0x32, 0x13); /* drop */
    ASSERT_VALUE(1, 0x31, 0x32, 0x14); /* over */
    ASSERT_VALUE(2, 0x31, 0x32, 0x14, 0x13);
    ASSERT_VALUE(1, 0x31, 0x32, 0x33, 0x15, 2); /* pick */
    ASSERT_VALUE(3, 0x31, 0x32, 0x33, 0x15, 0);
    ASSERT_VALUE(1, 0x31, 0x32, 0x16); /* swap */
    ASSERT_VALUE(2, 0x31, 0x32, 0x16, 0x13);
    ASSERT_VALUE(2, 0x31, 0x32, 0x33, 0x17); /* rot: 3 1 2 */
    ASSERT_VALUE(1, 0x31, 0x32, 0x33, 0x17, 0x13);
    ASSERT_VALUE(3, 0x31, 0x32, 0x33, 0x17, 0x13, 0x13);
    ASSERT_NO_VALUE(0x13);
    ASSERT_NO_VALUE(0x31, 0x14);
    ASSERT_NO_VALUE(0x31, 0x15, 1);
    ASSERT_NO_VALUE(0x31, 0x16);
    ASSERT_NO_VALUE(0x31, 0x32, 0x17);
    ASSERT_NO_VALUE(0x31, 0x22);
    ASSERT_NO_VALUE(0x96);
}

static void operations_with_one_operand(void **state)
{
    (void)state;
    ASSERT_VALUE(7, 0x09, 0xf9, 0x19); /* abs */
    ASSERT_VALUE(7, 0x37, 0x19);
    ASSERT_VALUE(-7, 0x37, 0x1f); /* neg */
    ASSERT_VALUE(~7ull, 0x37, 0x20);
    ASSERT_VALUE(7 + 300, 0x37, 0x23, 0xac, 0x02); /* plus_uconst */
    ASSERT_VALUE(7, 0x37, 0x96);
    ASSERT_VALUE((uint64_t)1 << 63, 0x31, 0x08, 63, 0x24);
    ASSERT_VALUE(0, 0x31, 0x08, 64, 0x24);
    ASSERT_VALUE(0, 0x31, 0x08, 64, 0x25);
    ASSERT_VALUE(-1, 0x09, 0xf9, 0x08, 64, 0x26);
    ASSERT_VALUE((uint64_t)1 << 63, 0x31, 0x08, 63, 0x24, 0x09, 0xff, 0x1b); /* the least number / -1 */
    ASSERT_NO_VALUE(0x37, 0x30, 0x1b);
    ASSERT_NO_VALUE(0x37, 0x30, 0x1d);
    ASSERT_NO_VALUE(0x37, 0x37, 0x02); /* no operation */
}

static void jumps(void **state)
{
    (void)state;
    ASSERT_VALUE(2, 0x31, 0x2f, 1, 0, 0x35, 0x32); /* skip forward */
    ASSERT_VALUE(2, 0x32, 0x31, 0x28, 1, 0, 0x35); /* bra, taken */
    ASSERT_VALUE(5, 0x32, 0x30, 0x28, 1, 0, 0x35); /* bra, not taken */
    ASSERT_VALUE(2, 0x32, 0x2f, 0, 0);             /* to the next operation */
    /* 2 is doubled as often as the counter below it says */
    ASSERT_VALUE(16, 0x33, 0x32, 0x32, 0x1e, 0x16, 0x31, 0x1c, 0x16, 0x14, 0x28, 0xf6, 0xff);
    ASSERT_NO_VALUE(0x31, 0x2f, 1, 0);       /* after the end */
    ASSERT_NO_VALUE(0x31, 0x2f, 0xfb, 0xff); /* before the start */
    ASSERT_NO_VALUE(0x2f, 0xfd, 0xff);       /* for ever */
}

static void limits_of_an_expression(void **state)
{
    uint8_t many[17];
    uint64_t value, first = 9;
    (void)state;
    memset(many, 0x31, sizeof many);
    assert_true(evaluate(many, 16, NULL, &value));
    assert_false(evaluate(many, 17, NULL, &value));
    assert_false(evaluate(many, 16, &first, &value));
    assert_true(evaluate(many, 1, &first, &value) && value == 1);
    assert_true(evaluate((const uint8_t[]){0x22}, 0, &first, &value) && value == 9);
    assert_true(evaluate((const uint8_t[]){0x33, 0x22}, 2, &first, &value) && value == 12);
    const uint8_t cut[] = {3, 0x31, 0x31}; /* shorter than it says */
    const struct eh_registers registers = {.known = 0};
    struct stack_memory memory = {0};
    assert_false(
        eh_evaluate((struct eh_bytes){cut, cut + sizeof cut, false}, &registers, &memory, NULL, &value));
}

/* -- rules in one word -- */

/* A function with these rules from its first instruction on. */
#define FUNCTION(name, rules)                                                                                \
    __asm__(".pushsection .text\n" #name ":\n.cfi_startproc\n" rules "nop\n.cfi_endproc\n.popsection\n");    \
    extern const char name[]

FUNCTION(plain, "");
FUNCTION(far, ".cfi_def_cfa_offset 0x7ffff8\n");
FUNCTION(too_far, ".cfi_def_cfa_offset 0x800000\n");
FUNCTION(from_bp, ".cfi_def_cfa 6, 16\n.cfi_offset 6, -16\n");
FUNCTION(from_rbx, ".cfi_def_cfa 3, 16\n");
FUNCTION(deep_bp, ".cfi_offset 6, -16384\n");
FUNCTION(too_deep_bp, ".cfi_offset 6, -16392\n");
FUNCTION(high_bp, ".cfi_offset 6, 16376\n");
FUNCTION(too_high_bp, ".cfi_offset 6, 16384\n");
FUNCTION(no_bp, ".cfi_undefined 6\n");
FUNCTION(bp_in_register, ".cfi_register 6, 3\n");
/* what gcc writes for a realigned stack: the CFA is the word at rbp - 8, and rbp is saved at rbp + 0 */
FUNCTION(realigned, ".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n.cfi_escape 0x10, 6, 2, 0x76, 0\n");
FUNCTION(computed, ".cfi_escape 0x0f, 2, 0x76, 0x78\n");            /* rbp - 8 itself */
FUNCTION(computed_more, ".cfi_escape 0x0f, 4, 0x76, 0x78, 6, 6\n"); /* the word at the word there */
FUNCTION(by_rbx, ".cfi_escape 0x0f, 3, 0x73, 0x78, 0x06\n");
FUNCTION(bp_by_rbx, ".cfi_escape 0x10, 6, 2, 0x73, 0\n");
FUNCTION(bp_by_word, ".cfi_escape 0x10, 6, 3, 0x76, 0, 0x06\n");
FUNCTION(outermost, ".cfi_undefined 16\n");
FUNCTION(elsewhere, ".cfi_offset 16, -16\n");
FUNCTION(ip_in_register, ".cfi_register 16, 3\n");
FUNCTION(other_sp, ".cfi_val_offset 7, 8\n");
FUNCTION(saved_sp, ".cfi_offset 7, -16\n");
FUNCTION(of_signal, ".cfi_signal_frame\n");

static void words(void **state)
{
    static const struct {
        const char *function;
        enum frame_kind kind;
        int64_t cfa;
        enum frame_bp bp;
        int64_t bp_offset;
    } cases[] = {
        {plain, FRAME_FROM_SP, 8, BP_SAME, 0},  {far, FRAME_FROM_SP, 0x7ffff8, BP_SAME, 0},
        {too_far, FRAME_OTHER, 0, 0, 0},        {from_bp, FRAME_FROM_BP, 16, BP_FROM_CFA, -16},
        {from_rbx, FRAME_OTHER, 0, 0, 0},       {deep_bp, FRAME_FROM_SP, 8, BP_FROM_CFA, -16384},
        {too_deep_bp, FRAME_OTHER, 0, 0, 0},    {high_bp, FRAME_FROM_SP, 8, BP_FROM_CFA, 16376},
        {too_high_bp, FRAME_OTHER, 0, 0, 0},    {no_bp, FRAME_FROM_SP, 8, BP_SAME, 0},
        {bp_in_register, FRAME_OTHER, 0, 0, 0}, {realigned, FRAME_SAVED_CFA, -8, BP_FROM_BP, 0},
        {computed, FRAME_OTHER, 0, 0, 0},       {computed_more, FRAME_OTHER, 0, 0, 0},
        {by_rbx, FRAME_OTHER, 0, 0, 0},         {bp_by_rbx, FRAME_OTHER, 0, 0, 0},
        {bp_by_word, FRAME_OTHER, 0, 0, 0},     {outermost, FRAME_OUTERMOST, 0, 0, 0},
        {elsewhere, FRAME_OTHER, 0, 0, 0},      {ip_in_register, FRAME_OTHER, 0, 0, 0},
        {other_sp, FRAME_OTHER, 0, 0, 0},       {saved_sp, FRAME_OTHER, 0, 0, 0},
        {of_signal, FRAME_OTHER, 0, 0, 0},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint64_t ip = (uint64_t)(uintptr_t)cases[i].function;
        const frame_rule rule = frame_new_rule(ip);
        assert_int_equal(frame_kind(rule), cases[i].kind);
        assert_true(frame_cfa_offset(rule) == cases[i].cfa);
        assert_int_equal(frame_bp(rule), cases[i].bp);
        assert_true(frame_bp_offset(rule) == cases[i].bp_offset);
        assert_int_equal(frame_object(rule), code_object_number(ip));
        assert_true(frame_kept_rule(ip) == rule);
    }
    assert_int_equal(frame_kind(frame_new_rule(1)), FRAME_UNKNOWN);
}

/* A stack that goes from a function above to code whose rules do not lead on is lost there; it is not if they say that
 * there is no caller. */
static void lost_stacks(void **state)
{
    static const struct {
        const char *function;
        bool lost;
    } cases[] = {{by_rbx, true}, {ip_in_register, true}, {outermost, false}};
    uint64_t stack[16] = {0}, ips[8], sps[8];
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct native_registers from = {(uint64_t)(uintptr_t)plain, (uint64_t)(uintptr_t)stack,
                                              (uint64_t)(uintptr_t)(stack + 8)};
        bool lost = !cases[i].lost;
        stack[0] = (uint64_t)(uintptr_t)cases[i].function + 1; /* where the first function returns to */
        assert_int_equal(native_unwind_from(&from, false, ips, sps, 8, &lost), 2);
        assert_true(ips[0] == from.ip && ips[1] == stack[0] - 1);
        assert_int_equal(lost, cases[i].lost);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advances),
        cmocka_unit_test(rules_of_the_common_entry),
        cmocka_unit_test(rules_of_registers),
        cmocka_unit_test(other_registers_are_ignored),
        cmocka_unit_test(rules_of_the_frame_address),
        cmocka_unit_test(expressions_of_registers),
        cmocka_unit_test(remembered_rules),
        cmocka_unit_test(unknown_instructions),
        cmocka_unit_test(constants),
        cmocka_unit_test(words_of_memory),
        cmocka_unit_test(order_of_values),
        cmocka_unit_test(operations_with_one_operand),
        cmocka_unit_test(jumps),
        cmocka_unit_test(limits_of_an_expression),
        cmocka_unit_test(words),
        cmocka_unit_test(lost_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
