/* test_varint.c - numbers and records byte for byte.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/format/records.h"

#include <string.h>

static void check_bytes(uint64_t v, const char *bytes, size_t n)
{
    uint8_t out[UVARINT_MAX_BYTES];
    assert_int_equal(uvarint_write(out, v) - out, n);
    assert_memory_equal(out, bytes, n);
    struct cursor c = {.p = out, .end = out + n};
    assert_true(cursor_uvarint(&c) == v);
    assert_false(c.bad);
    assert_ptr_equal(c.p, c.end);
}

static void test_uvarint_bytes(void **state)
{
    check_bytes(0, "\x00", 1);
    check_bytes(127, "\x7f", 1);
    check_bytes(128, "\x80\x01", 2);
    check_bytes(300, "\xac\x02", 2);
    check_bytes(UINT32_MAX, "\xff\xff\xff\xff\x0f", 5);
    check_bytes(UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
}

/* The same number, whatever bytes follow. */
static void check_followed(uint64_t v, size_t more)
{
    uint8_t out[UVARINT_MAX_BYTES + 16];
    memset(out, 0xff, sizeof out);
    const uint8_t *end = uvarint_write(out, v);
    struct cursor c = {.p = out, .end = end + more}, any = c;
    assert_true(cursor_uvarint(&c) == v && cursor_uvarint_any(&any) == v);
    assert_false(c.bad || any.bad);
    assert_ptr_equal(c.p, end);
    assert_ptr_equal(any.p, end);
}

/* The same bytes, and nothing is written after those that may be. */
static void check_any(uint64_t v)
{
    uint8_t plain[UVARINT_MAX_BYTES], out[UVARINT_MAX_BYTES + UVARINT_BEYOND + 1];
    const size_t n = (size_t)(uvarint_write(plain, v) - plain);
    memset(out, 0xff, sizeof out);
    assert_ptr_equal(uvarint_write_any(out, v), out + n);
    assert_memory_equal(out, plain, n);
    for (size_t i = n + UVARINT_BEYOND; i < sizeof out; i++)
        assert_int_equal(out[i], 0xff);
}

static void check_number(uint64_t v, size_t more)
{
    check_followed(v, more);
    check_any(v);
}

static void test_uvarint_followed(void **state)
{
    uint64_t seed = 7;
    for (size_t more = 0; more < 12; more++)
        for (unsigned bits = 0; bits < 64; bits++) {
            check_number(UINT64_MAX >> bits, more);
            check_number((random_next(&seed) | UINT64_C(1) << 63) >> bits, more);
            check_number(UINT64_C(1) << bits, more);
        }
}

static void check_bad(const char *bytes, size_t n)
{
    struct cursor c = {.p = (const uint8_t *)bytes, .end = (const uint8_t *)bytes + n}, any = c;
    assert_true(cursor_uvarint(&c) == 0 && cursor_uvarint_any(&any) == 0);
    assert_true(c.bad && any.bad);
    assert_true(c.p <= c.end && any.p <= any.end);
}

static void test_uvarint_bad(void **state)
{
    check_bad("", 0);
    check_bad("\x80", 1);
    check_bad("\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9);
    check_bad("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10);
    check_bad("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11);
}

static void test_zigzag(void **state)
{
    assert_true(zigzag(0) == 0 && zigzag(-1) == 1 && zigzag(1) == 2 && zigzag(-2) == 3);
    assert_true(zigzag(INT64_MAX) == UINT64_MAX - 1 && zigzag(INT64_MIN) == UINT64_MAX);
    uint64_t seed = 1;
    for (int i = 0; i < 1000; i++) {
        int64_t v = (int64_t)(random_next(&seed) >> random_below(&seed, 64));
        assert_true(unzigzag(zigzag(v)) == v && unzigzag(zigzag(-v)) == -v);
    }
}

/* Two NEW records: time, slot, address as difference, size, heap, how, stack. */
static void test_record_bytes(void **state)
{
    struct buffer b = {.time = 100};
    put_new(&b, &(struct rec_new){103, 2, 0x40, 16, 0, MT_HOW_CALLOC, 5});
    put_new(&b, &(struct rec_new){103, 3, 0x3f, 200, 1, MT_HOW_LUA, 0});
    static const uint8_t expected[] = {16, 3, 2, 0x80, 1, 16, 0, 1, 5, 16, 0, 3, 1, 0xc8, 1, 1, 6, 0};
    assert_int_equal(buffer_size(&b), sizeof expected);
    assert_memory_equal(b.data, expected, sizeof expected);
    buffer_free(&b);
}

static void test_text_record(void **state)
{
    struct buffer b = {0};
    struct rec_string r = {{"a\n\"\xff", 4}}, back;
    char text[LINE_MAX_BYTES];
    struct line l = {text, 0};
    put_string(&b, &r);
    assert_memory_equal(b.data,
                        "\x02\x04"
                        "a\n\"\xff",
                        6);
    struct cursor c = {.p = b.data + 1, .end = b.p};
    assert_true(get_string(&c, &back));
    dump_string(&l, 7, &back);
    assert_string_equal(text, "string id=7 text=\"a\\x0a\\x22\\xff\"");
    struct cursor cut = {.p = b.data + 1, .end = b.p - 1};
    assert_false(get_string(&cut, &back));
    buffer_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uvarint_bytes), cmocka_unit_test(test_uvarint_followed),
        cmocka_unit_test(test_uvarint_bad),   cmocka_unit_test(test_zigzag),
        cmocka_unit_test(test_record_bytes),  cmocka_unit_test(test_text_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
