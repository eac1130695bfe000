/* test_eh_frame.c - tests of the reader of .eh_frame: damaged sections, and sections without a sorted table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The sections are copies of those of libc. Their relative pointers stay valid if the whole segment is copied, and the
 * code addresses are moved by the same distance. After each copy lies a page that cannot be read, so that a read beyond
 * the end is a fault.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/native/unwind/eh_expression.h"

enum { PAGE = 4096, HEADER_SIZE = 12, PE_OMIT = 0xff };

/* A copy of sections, and the table of its header. */
struct copy {
    struct eh_sections sections;
    uint8_t *header, *table, *frames_end;
    uint32_t functions;
};

static uint64_t s_seed = 1;

static uint32_t dice(uint32_t below)
{
    s_seed = s_seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(s_seed >> 33) % below;
}

static struct copy copy_libc(void)
{
    struct eh_sections s;
    struct copy c = {0};
    assert_true(code_object_sections((uint64_t)(uintptr_t)qsort, &s) != CODE_NO_OBJECT);
    assert_true(s.header >= s.frames_begin && s.header < s.frames_end && s.header_end == s.frames_end);
    const size_t size = (size_t)(s.frames_end - s.frames_begin), room = (size + PAGE - 1) / PAGE * PAGE;
    uint8_t *memory = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    mprotect(memory + room, PAGE, PROT_NONE);
    uint8_t *begin = memory + room - size;
    memcpy(begin, s.frames_begin, size);
    c.header = begin + (s.header - s.frames_begin);
    c.table = c.header + HEADER_SIZE;
    c.frames_end = begin + size;
    memcpy(&c.functions, c.header + 8, 4);
    c.sections = (struct eh_sections){c.header, c.frames_end, begin, c.frames_end};
    assert_true(c.functions > 1000);
    return c;
}

static int32_t table_word(const struct copy *c, uint32_t function, bool second)
{
    int32_t word;
    memcpy(&word, c->table + function * 8 + (second ? 4 : 0), 4);
    return word;
}

static uint64_t begin_of(const struct copy *c, uint32_t function)
{
    return (uint64_t)(uintptr_t)c->header + (uint64_t)(int64_t)table_word(c, function, false);
}

static void list_and_table_agree(void **state)
{
    struct copy c = copy_libc();
    struct eh_rules by_table[200], by_list;
    uint64_t ips[200];
    bool found[200];
    unsigned n = 0;
    (void)state;
    for (int i = 0; i < 200; i++) {
        ips[i] = begin_of(&c, dice(c.functions)) + dice(60);
        memset(&by_table[i], 0, sizeof by_table[i]);
        found[i] = eh_frame_rules(&c.sections, ips[i], &by_table[i]);
        n += found[i];
    }
    assert_true(n > 100);
    c.header[3] = PE_OMIT; /* no table */
    for (int i = 0; i < 200; i++) {
        memset(&by_list, 0, sizeof by_list);
        assert_int_equal(eh_frame_rules(&c.sections, ips[i], &by_list), found[i]);
        if (found[i])
            assert_memory_equal(&by_list, &by_table[i], sizeof by_list);
    }
}

/* Use all rules that were found: evaluate what has an expression. */
static void use(const struct copy *c, const struct eh_rules *rules)
{
    struct eh_registers registers = {.known = (1u << EH_REGISTERS) - 1};
    struct stack_memory memory = {0};
    uint64_t value;
    for (int i = -1; i < EH_REGISTERS; i++) {
        const struct eh_rule *rule = i < 0 ? &rules->cfa : &rules->registers[i];
        const struct eh_bytes at = {c->sections.frames_begin + rule->offset, c->sections.frames_end, false};
        if (rule->how == EH_SAVED_AT || rule->how == EH_COMPUTED)
            eh_evaluate(at, &registers, &memory, NULL, &value);
    }
}

static void damaged_bytes(void **state)
{
    struct copy c = copy_libc();
    struct eh_rules rules;
    uint32_t found = 0;
    (void)state;
    for (int round = 0; round < 100000; round++) {
        const uint32_t function = dice(c.functions);
        uint8_t *fde = c.header + table_word(&c, function, true);
        int32_t distance;
        memcpy(&distance, fde + 4, 4);
        uint8_t *cie = fde + 4 - distance;
        uint8_t *const places[] = {fde, fde, fde, cie, c.table + function * 8, c.header};
        const uint32_t sizes[] = {64, 24, 8, 28, 8, HEADER_SIZE};
        uint8_t *at[3], old[3];
        const uint64_t ip = begin_of(&c, function) + dice(100);
        for (int i = 0; i < 3; i++) {
            const uint32_t place = dice(6);
            at[i] = places[place] + dice(sizes[place]);
            if (at[i] >= c.frames_end)
                at[i] = c.header;
            old[i] = *at[i];
            *at[i] = dice(3) ? (uint8_t)dice(256) : (uint8_t)(0xff << dice(8));
        }
        if (eh_frame_rules(&c.sections, ip, &rules)) {
            use(&c, &rules);
            found++;
        }
        for (int i = 2; i >= 0; i--)
            *at[i] = old[i];
    }
    assert_true(found > 1000);
}

/* Sections that end anywhere. */
static void cut_sections(void **state)
{
    struct copy c = copy_libc();
    struct eh_rules rules;
    const size_t room = (size_t)(c.frames_end - c.header);
    uint8_t *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    mprotect(memory + 2 * PAGE, PAGE, PROT_NONE);
    for (int round = 0; round < 20000; round++) {
        const uint32_t function = dice(c.functions);
        const size_t at = (size_t)table_word(&c, function, true), size = dice(200);
        if (at + size > room)
            continue;
        /* a section that has only this entry, and no table */
        uint8_t *end = memory + 2 * PAGE, *begin = end - size;
        memcpy(begin, c.header + at, size);
        uint8_t header[] = {1, 0x00 /* an absolute pointer */, PE_OMIT, PE_OMIT, 0, 0, 0, 0, 0, 0, 0, 0};
        memcpy(header + 4, &begin, 8);
        const struct eh_sections s = {header, header + sizeof header, begin, end};
        eh_frame_rules(&s, begin_of(&c, function) + dice(100), &rules);
        const struct eh_sections shorter = {c.header, c.header + dice(40), c.sections.frames_begin,
                                            c.header + at + size};
        eh_frame_rules(&shorter, begin_of(&c, function) + dice(100), &rules);
    }
    munmap(memory, 3 * PAGE);
}

static void random_expressions(void **state)
{
    struct eh_registers registers = {.known = 0xff};
    struct stack_memory memory = {0};
    uint64_t value, evaluated = 0;
    (void)state;
    for (int round = 0; round < 500000; round++) {
        uint8_t bytes[24];
        const uint32_t size = dice(sizeof bytes - 1) + 1;
        bytes[0] = (uint8_t)(dice(20) ? size : dice(256));
        for (uint32_t i = 1; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)(dice(3) ? 0x08 + dice(0x90) : 0x30 + dice(32));
        const struct eh_bytes expression = {bytes, bytes + size + 1, false};
        evaluated += eh_evaluate(expression, &registers, &memory, &registers.value[0], &value);
    }
    assert_true(evaluated > 1000);
}

/* The value of each operation with 12 below 5 or, for signs, -7 below 2. */
static void operations(void **state)
{
    static const struct {
        uint8_t op;
        uint64_t positive, negative;
    } cases[] = {{0x1a, 12 & 5, (uint64_t)-7 & 2},
                 {0x1b, 2, (uint64_t)-3},
                 {0x1c, 7, (uint64_t)-9},
                 {0x1e, 60, (uint64_t)-14},
                 {0x21, 12 | 5, (uint64_t)-7 | 2},
                 {0x22, 17, (uint64_t)-5},
                 {0x24, 12 << 5, (uint64_t)-28},
                 {0x25, 0, (uint64_t)-7 >> 2},
                 {0x26, 0, (uint64_t)-2},
                 {0x27, 12 ^ 5, (uint64_t)-7 ^ 2},
                 {0x29, 0, 0},
                 {0x2a, 1, 0},
                 {0x2b, 1, 0},
                 {0x2c, 0, 1},
                 {0x2d, 0, 1},
                 {0x2e, 1, 1}};
    struct eh_registers registers = {.known = 0};
    struct stack_memory memory = {0};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t positive[] = {3, 0x3c, 0x35, cases[i].op};
        const uint8_t negative[] = {4, 0x09, 0xf9, 0x32, cases[i].op};
        const struct eh_bytes a = {positive, positive + sizeof positive, false};
        const struct eh_bytes b = {negative, negative + sizeof negative, false};
        uint64_t value = 0;
        assert_true(eh_evaluate(a, &registers, &memory, NULL, &value));
        assert_int_equal(value, cases[i].positive);
        assert_true(eh_evaluate(b, &registers, &memory, NULL, &value));
        assert_int_equal(value, cases[i].negative);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_and_table_agree), cmocka_unit_test(damaged_bytes),
        cmocka_unit_test(cut_sections),         cmocka_unit_test(random_expressions),
        cmocka_unit_test(operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
