/* test_stacks.c - tests of frames and stacks: each is written once, and a code address may get another meaning.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The stacks are written to a real memtrace, and read back by the real reader.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include "ljtrace/collector/stacks.h"

struct session {
    int fd;
    struct mt_writer *writer;
    struct mt_reader *reader;
    struct stacks stacks;
};

static int setup(void **state)
{
    struct mt_error err;
    struct session *s = test_calloc(1, sizeof *s);
    s->fd = memfd_create("trace", 0);
    s->writer = mt_writer_new(s->fd, NULL, &err);
    assert_non_null(s->writer);
    stacks_init(&s->stacks, s->writer);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct session *s = *state;
    mt_close(s->reader);
    stacks_free(&s->stacks);
    close(s->fd);
    test_free(s);
    return 0;
}

static void read_back(struct session *s)
{
    const struct mt_event *batch;
    struct mt_error err = {0};
    char path[64];
    size_t n;
    assert_int_equal(mt_writer_finish(s->writer, MT_ENDING_EXIT, &err), MT_OK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    s->reader = mt_open(path, 0, &err);
    assert_non_null(s->reader);
    while (mt_next(s->reader, &batch, &n) == MT_MORE)
        ;
    assert_int_equal(mt_reader_error(s->reader)->code, MT_E_NONE);
}

/* The stack has frames with these addresses, innermost first, and no others. */
static void assert_stack(struct session *s, uint32_t id, const uint64_t *ips, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, id = mt_stack(s->reader, id)->parent)
        assert_int_equal(mt_frame(s->reader, mt_stack(s->reader, id)->frame)->ip, ips[i]);
    assert_int_equal(id, 0);
}

/* Each field makes another frame; what is defined again without a change changes nothing. */
static void definitions_again(void **state)
{
    struct session *s = *state;
    const struct mt_frame plain = {.ip = 0x2000, .line = 1};
    struct mt_frame other[10], pair[3] = {plain, plain, plain};
    for (unsigned i = 0; i < 10; i++)
        other[i] = plain;
    other[0].ip = 1, other[1].function = 1, other[2].file = 1, other[3].object = 1, other[4].line = 2;
    other[5].defined = 1, other[6].nth = 1, other[7].trace = 1, other[8].kind = 1, other[9].approximate = 1;
    stacks_define(&s->stacks, 0x2000, &plain, 1);
    assert_int_equal(s->stacks.meanings, 0);
    for (unsigned i = 0; i < 10; i++) {
        stacks_define(&s->stacks, 0x2000, &other[i], 1);
        assert_int_equal(s->stacks.meanings, 2 * i + 1);
        stacks_define(&s->stacks, 0x2000, &other[i], 1);
        assert_int_equal(s->stacks.meanings, 2 * i + 1);
        stacks_define(&s->stacks, 0x2000, &plain, 1);
        assert_int_equal(s->stacks.meanings, 2 * i + 2);
    }
    const uint32_t frames = s->stacks.count;
    pair[1].line = 7;
    stacks_define(&s->stacks, 0x2000, pair, 2);
    stacks_define(&s->stacks, 0x2000, pair, 2);
    assert_int_equal(s->stacks.meanings, 21);
    assert_int_equal(s->stacks.count, frames + 2);
    pair[1].line = 8;
    stacks_define(&s->stacks, 0x2000, pair, 2);
    stacks_define(&s->stacks, 0x2000, pair, 3);
    assert_int_equal(s->stacks.meanings, 23);
    stacks_define(&s->stacks, 0x3000, pair, 3); /* a new address does not change what there is */
    assert_int_equal(s->stacks.meanings, 23);
    read_back(s);
}

/* More addresses and nodes than there is room for at first, of one to three frames each. */
static void many_frames(void **state)
{
    struct session *s = *state;
    enum { ADDRESSES = 3000, FAR = 5000 };
    static uint32_t stack[ADDRESSES], numbered[ADDRESSES];
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        const uint64_t key = 0x1000 + i;
        struct mt_frame f[3];
        for (uint32_t k = 0; k < 3; k++)
            f[k] = (struct mt_frame){.ip = key << 2 | k, .line = i};
        stacks_define(&s->stacks, key, f, 1 + i % 3);
        assert_true(s->stacks.count <= s->stacks.capacity);
        stack[i] = stacks_intern(&s->stacks, (const uint64_t[]){key, 0x1000}, 2);
    }
    stacks_node(&s->stacks, 1, 0, 0x1000);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        stacks_node(&s->stacks, FAR + i, 1, 0x1000 + i);
        numbered[i] = stacks_numbered(&s->stacks, FAR + i);
    }
    assert_int_equal(stacks_numbered(&s->stacks, FAR - 1), 0);
    assert_int_equal(stacks_numbered(&s->stacks, UINT32_MAX), 0);
    read_back(s);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        const uint64_t key = 0x1000 + i;
        const uint64_t expected[] = {key << 2, key << 2 | 1, key << 2 | 2};
        uint64_t whole[4];
        uint32_t n = 1 + i % 3;
        memcpy(whole, expected, sizeof expected);
        whole[n++] = 0x1000 << 2;
        assert_stack(s, stack[i], whole, n);
        assert_int_equal(numbered[i], stack[i]);
    }
}

/* Stacks are built on what they have in common with the last one, from its outermost frame on. */
static void stacks_of_all_lengths(void **state)
{
    struct session *s = *state;
    enum { MOST = 60 };
    uint64_t ips[MOST];
    static uint32_t stack[2 * MOST];
    for (uint32_t i = 0; i < MOST; i++)
        ips[i] = 0x5000 + i;
    assert_int_equal(stacks_intern(&s->stacks, ips, 0), 0);
    for (uint32_t n = 1; n < MOST; n++) {
        stack[2 * n] = stacks_intern(&s->stacks, ips + MOST - n, n);
        stack[2 * n + 1] = stacks_intern(&s->stacks, ips, n);
        assert_int_equal(stacks_intern(&s->stacks, ips + MOST - n, n), stack[2 * n]);
    }
    read_back(s);
    for (uint32_t n = 1; n < MOST; n++) {
        assert_stack(s, stack[2 * n], ips + MOST - n, n);
        assert_stack(s, stack[2 * n + 1], ips, n);
    }
}

/* A frame of the recorder is seen where it is the innermost, in stacks by address and by number. */
static void frames_that_are_left_out(void **state)
{
    struct session *s = *state;
    const struct mt_frame recorders = {.ip = 0x2000};
    uint32_t stack[3], numbered[3];
    stacks_define(&s->stacks, 0x2000, &recorders, 1);
    stacks_leave_out(&s->stacks, 0x2000);
    stacks_leave_out(&s->stacks, 0x9999); /* it is not defined */
    stack[0] = stacks_intern(&s->stacks, (const uint64_t[]){0x2000, 0x3000}, 2);
    stack[1] = stacks_intern(&s->stacks, (const uint64_t[]){0x4000, 0x2000, 0x3000}, 3);
    stack[2] = stacks_intern(&s->stacks, (const uint64_t[]){0x5000, 0x4000, 0x2000, 0x3000}, 4);
    stacks_node(&s->stacks, 1, 0, 0x3000);
    stacks_node(&s->stacks, 2, 1, 0x2000);
    stacks_node(&s->stacks, 3, 2, 0x4000);
    stacks_node(&s->stacks, 4, 3, 0x5000);
    for (uint32_t i = 0; i < 3; i++)
        numbered[i] = stacks_numbered(&s->stacks, 2 + i);
    read_back(s);
    assert_stack(s, stack[0], (const uint64_t[]){0x2000, 0x3000}, 2);
    assert_stack(s, stack[1], (const uint64_t[]){0x4000, 0x3000}, 2);
    assert_stack(s, stack[2], (const uint64_t[]){0x5000, 0x4000, 0x3000}, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(numbered[i], stack[i]);
}

/* A code address gets another meaning: stacks of before stay, those that are asked for afterwards have the new frames. */
static void another_meaning(void **state)
{
    struct session *s = *state;
    const uint64_t ips[] = {0x4000, 0x2000, 0x3000};
    const struct mt_frame first = {.ip = 0x2000}, second[] = {{.ip = 0x2001}, {.ip = 0x2002}};
    stacks_define(&s->stacks, 0x2000, &first, 1);
    stacks_node(&s->stacks, 1, 0, 0x3000);
    stacks_node(&s->stacks, 2, 1, 0x2000);
    stacks_node(&s->stacks, 3, 2, 0x4000);
    const uint32_t before = stacks_intern(&s->stacks, ips, 3);
    assert_int_equal(stacks_numbered(&s->stacks, 3), before);
    stacks_define(&s->stacks, 0x2000, second, 2);
    const uint32_t after = stacks_intern(&s->stacks, ips, 3);
    assert_int_not_equal(after, before);
    assert_int_equal(stacks_numbered(&s->stacks, 3), after);
    const uint32_t innermost = stacks_frame(&s->stacks, 0x2000);
    read_back(s);
    assert_stack(s, before, ips, 3);
    assert_stack(s, after, (const uint64_t[]){0x4000, 0x2001, 0x2002, 0x3000}, 4);
    assert_int_equal(mt_frame(s->reader, innermost)->ip, 0x2001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(definitions_again, setup, teardown),
        cmocka_unit_test_setup_teardown(many_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(stacks_of_all_lengths, setup, teardown),
        cmocka_unit_test_setup_teardown(frames_that_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(another_meaning, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
