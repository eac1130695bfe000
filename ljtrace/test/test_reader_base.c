/* test_reader_base.c - texts and sets of the reader of LuaJIT, which has no C library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/set.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 1000, LENGTH = 5000 };

static char s_said[2 * LENGTH];
static uint32_t s_pieces;

/* -- the host -- */

void *host_resize(void *p, size_t n)
{
    if (n)
        return realloc(p, n);
    free(p);
    return NULL;
}

void host_say(const char *text)
{
    strcat(s_said, text);
    s_pieces++;
}

/* -- sets -- */

struct element {
    uint64_t number;
    uint32_t value;
};

static struct element *make(uint64_t number)
{
    struct element *e = host_new(sizeof *e);
    *e = (struct element){number, (uint32_t)number};
    return e;
}

/* Numbers that are multiples of 10, in an order that is not theirs. */
static void fill(struct lt_set *set)
{
    for (uint64_t i = 0; i < ELEMENTS; i++)
        lt_set_add(set, make(10 * (i * 617 % ELEMENTS)));
}

static void test_each_element_is_found(void **state)
{
    struct lt_set set = {0};
    (void)state;
    assert_null(lt_set_find(&set, 0));
    assert_null(lt_set_below(&set, ~0ULL));
    fill(&set);
    assert_int_equal(set.count, ELEMENTS);
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        const struct element *e = lt_set_find(&set, 10 * i);
        assert_non_null(e);
        assert_int_equal(e->value, 10 * i);
        assert_ptr_equal(lt_set_below(&set, 10 * i + 9), e);
        assert_null(lt_set_find(&set, 10 * i + 1));
    }
    lt_set_clear(&set);
    assert_int_equal(set.count, 0);
    assert_null(lt_set_below(&set, ~0ULL));
}

static void test_what_is_removed_is_gone(void **state)
{
    struct lt_set set = {0};
    (void)state;
    fill(&set);
    struct element *e = lt_set_find(&set, 500), other = {500, 0};
    lt_set_remove(&set, &other); /* not an element, although its number is one's */
    assert_ptr_equal(lt_set_find(&set, 500), e);
    lt_set_remove(&set, e);
    assert_null(lt_set_find(&set, 500));
    assert_int_equal(((struct element *)lt_set_below(&set, 500))->value, 490);
    assert_int_equal(set.count, ELEMENTS - 1);
    host_free(e);
    lt_set_clear(&set);
}

/* -- texts -- */

static void test_conversions_are_those_of_printf(void **state)
{
    char own[200], libc[200];
    (void)state;
#define SAME(...)                                                                                            \
    assert_int_equal(text_print(own, sizeof own, __VA_ARGS__), snprintf(libc, sizeof libc, __VA_ARGS__));    \
    assert_string_equal(own, libc)
    SAME("plain %% text");
    SAME("%s and %s", "one", "");
    SAME("%u %d %d %x", 4294967295U, -2147483647 - 1, 0, 48879);
    SAME("%lu %ld %lx %#lx", ~0UL, (long)(1UL << 63), 1UL << 47, 255UL);
    SAME("%llu", ~0ULL);
#undef SAME
}

static void test_a_text_is_cut_to_its_room(void **state)
{
    char to[8];
    (void)state;
    memset(to, 'x', sizeof to);
    assert_int_equal(text_print(to, 5, "%s%u", "abc", 123), 4);
    assert_string_equal(to, "abc1");
    assert_memory_equal(to + 5, "xxx", 3);
}

static void test_a_message_is_not_cut(void **state)
{
    static char path[LENGTH + 1], whole[LENGTH + 20];
    (void)state;
    memset(path, 'p', LENGTH);
    text_say("file %s: %u\n", path, 7);
    snprintf(whole, sizeof whole, "file %s: %u\n", path, 7);
    assert_string_equal(s_said, whole);
    assert_true(s_pieces > 1);
}

static void test_texts_are_compared_and_copied(void **state)
{
    char to[4];
    (void)state;
    assert_true(text_equals("abc", "abc"));
    assert_false(text_equals("abc", "ab"));
    assert_false(text_equals("", "a"));
    assert_true(bytes_equal("a\0b", "a\0b", 3));
    assert_false(bytes_equal("a\0b", "a\0c", 3));
    assert_int_equal(text_length("abc"), 3);
    text_copy(to, "abc");
    char *copy = text_duplicate(to);
    assert_string_equal(copy, "abc");
    host_free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_element_is_found),
        cmocka_unit_test(test_what_is_removed_is_gone),
        cmocka_unit_test(test_conversions_are_those_of_printf),
        cmocka_unit_test(test_a_text_is_cut_to_its_room),
        cmocka_unit_test(test_a_message_is_not_cut),
        cmocka_unit_test(test_texts_are_compared_and_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
