/* test_region.c - the memory calls of the heap: what is mapped where, and that it is bounded.
 *
 * One region serves all tests of this file; each leaves it empty. Once the break has been moved, mappings are placed
 * differently, so its test comes last.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/heap/reservation.h"
#include "drivers/test/test_units.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KIB = 1024, SIZE = 16 << 20 };

static int reserve(void **state)
{
    return region_reserve(SIZE) ? 0 : -1;
}

static void test_map_is_lowest_first(void **state)
{
    long a = region_map(NULL, 10000, false), b = region_map(NULL, 1, false);
    assert_int_equal(a, (long)region_base());
    assert_int_equal(b, a + 3 * REGION_PAGE);
    assert_int_equal(region_committed(), 4 * REGION_PAGE);
    assert_ptr_equal(region_top(), region_base() + 4 * REGION_PAGE);
    assert_int_equal(region_unmap((void *)a, 10000), 0);
    assert_int_equal(region_map(NULL, REGION_PAGE, false), a);
    region_unmap((void *)a, REGION_PAGE);
    region_unmap((void *)b, 1);
    assert_int_equal(region_committed(), 0);
    assert_ptr_equal(region_top(), region_base());
}

static void test_map_is_bounded(void **state)
{
    assert_int_equal(region_map(NULL, SIZE + 1, false), -ENOMEM);
    assert_int_equal(region_map(NULL, 0, false), -EINVAL);
    assert_int_equal(region_map(NULL, SIZE_MAX, false), -ENOMEM);
    long all = region_map(NULL, SIZE, false);
    assert_int_equal(all, (long)region_base());
    assert_int_equal(region_map(NULL, 1, false), -ENOMEM);
    assert_int_equal(region_unmap((void *)all, SIZE), 0);
}

static void test_pages_come_back_zeroed(void **state)
{
    char *p = (char *)region_map(NULL, 64 * KIB, false);
    memset(p, 0x5a, 64 * KIB);
    assert_true(region_resident() >= 64 * KIB);
    region_unmap(p, 64 * KIB);
    assert_int_equal(region_resident(), 0);
    p = (char *)region_map(NULL, 64 * KIB, false);
    for (int i = 0; i < 64 * KIB; i++)
        assert_int_equal(p[i], 0);
    region_unmap(p, 64 * KIB);
}

static void test_large_mappings_are_aligned(void **state)
{
    long small = region_map(NULL, 1, false), large = region_map(NULL, 4 << 20, false);
    assert_int_equal(large % (4 << 20), 0);
    assert_int_equal(region_unmap((void *)large, 4 << 20), 0);
    region_unmap((void *)small, 1);
}

static void test_fixed_stays_inside(void **state)
{
    char *p = region_base() + 8 * REGION_PAGE;
    assert_int_equal(region_map(p, REGION_PAGE, true), (long)p);
    assert_int_equal(region_map(region_base() + SIZE, REGION_PAGE, true), -ENOMEM);
    assert_int_equal(region_map(region_base() + SIZE - REGION_PAGE, 2 * REGION_PAGE, true), -ENOMEM);
    assert_int_equal(region_unmap(p + 1, REGION_PAGE), -EINVAL);
    assert_int_equal(region_unmap(p, REGION_PAGE), 0);
}

static void test_remap_keeps_contents(void **state)
{
    char *p = (char *)region_map(NULL, REGION_PAGE, false);
    strcpy(p, "kept");
    assert_int_equal(region_remap(p, REGION_PAGE, 4 * REGION_PAGE, false), (long)p);
    char *wall = (char *)region_map(NULL, REGION_PAGE, false);
    assert_ptr_equal(wall, p + 4 * REGION_PAGE);
    assert_int_equal(region_remap(p, 4 * REGION_PAGE, 5 * REGION_PAGE, false), -ENOMEM);
    char *moved = (char *)region_remap(p, 4 * REGION_PAGE, 5 * REGION_PAGE, true);
    assert_ptr_equal(moved, wall + REGION_PAGE);
    assert_string_equal(moved, "kept");
    assert_int_equal(p[0], 0);
    assert_int_equal(region_remap(moved, 5 * REGION_PAGE, REGION_PAGE, true), (long)moved);
    assert_int_equal(region_committed(), 2 * REGION_PAGE);
    region_unmap(moved, REGION_PAGE);
    region_unmap(wall, REGION_PAGE);
}

static void test_calls_pass_when_not_captured(void **state)
{
    long p = region_mmap_call(NULL, REGION_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_false(region_holds((void *)p, 1));
    assert_int_equal(region_munmap_call((void *)p, REGION_PAGE), 0);
}

static void test_calls_are_captured(void **state)
{
    region_capture(true);
    long p = region_mmap_call(NULL, REGION_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region_holds((void *)p, REGION_PAGE));
    *(char *)p = 1;
    assert_int_equal(region_munmap_call((void *)p, REGION_PAGE), 0);
    p = region_mmap_call(NULL, REGION_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_false(region_holds((void *)p, 1));
    region_munmap_call((void *)p, REGION_PAGE);
    region_capture(false);
}

static void test_holds(void **state)
{
    assert_true(region_holds(region_base(), SIZE));
    assert_false(region_holds(region_base(), SIZE + 1));
    assert_false(region_holds(region_base() - 1, 1));
    assert_false(region_holds(region_base() + 1, SIZE_MAX));
}

static void test_break(void **state)
{
    char *base = region_base();
    assert_int_equal(region_break(NULL), (long)base);
    assert_int_equal(region_break(base), (long)base);
    long low = region_map(NULL, REGION_PAGE, false);
    assert_int_equal(low, (long)base);
    assert_int_equal(region_break(base + 1), (long)base);
    region_unmap((void *)low, REGION_PAGE);
    assert_int_equal(region_break(base + 5000), (long)base + 5000);
    assert_int_equal(region_committed(), 2 * REGION_PAGE);
    assert_int_equal(region_map(NULL, REGION_PAGE, false), (long)base + SIZE - REGION_PAGE);
    assert_int_equal(region_break(base + SIZE), (long)base + 5000);
    assert_int_equal(region_break(base), (long)base);
    assert_int_equal(region_committed(), REGION_PAGE);
    region_unmap(base + SIZE - REGION_PAGE, REGION_PAGE);
}

/* A reservation costs nothing. Its usable parts count, up to the size of the heap, and have positions in order. */
static void test_reservation_counts_what_is_used(void **state)
{
    size_t before = region_committed(), room = SIZE - before;
    region_allow_reservation();
    char *p = (char *)region_reserve_more((size_t)1 << 36);
    assert_false(raw_failed((long)p));
    assert_true(reservation_contains(p) && !region_holds(p, 1) && region_committed() == before);
    char *far = p + ((size_t)1 << 35);
    assert_int_equal(region_use(far, 2 * REGION_PAGE), (long)far);
    assert_int_equal(region_use(p, REGION_PAGE), (long)p);
    assert_int_equal(region_committed(), before + 3 * REGION_PAGE);
    assert_true(region_holds(far, 2 * REGION_PAGE) && !region_holds(far, 2 * REGION_PAGE + 1));
    assert_int_equal(region_offset(far + REGION_PAGE + 7), REGION_PAGE + 7);
    assert_int_equal(region_offset(p + 9), 2 * REGION_PAGE + 9);
    size_t resident = region_resident();
    far[0] = 1;
    assert_int_equal(region_resident(), resident + REGION_PAGE);
    assert_true(raw_failed(region_use(far, room)));
    assert_int_equal(region_committed(), before + 3 * REGION_PAGE);
    assert_true(raw_failed(region_reserve_more((size_t)1 << 36)));
    assert_int_equal(region_unmap(far, 2 * REGION_PAGE), 0);
    assert_int_equal(region_resident(), resident);
    assert_int_equal(region_use(far, 2 * REGION_PAGE), (long)far);
    far[0] = far[REGION_PAGE] = 1;
    assert_int_equal(region_resident(), resident + 2 * REGION_PAGE); /* each counts once */
    assert_int_equal(region_unmap(far, 2 * REGION_PAGE), 0);
    assert_int_equal(region_unmap(p, REGION_PAGE), 0);
    assert_int_equal(region_committed(), before);
    assert_false(region_holds(far, 1));
}

int run_region_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_is_lowest_first),
        cmocka_unit_test(test_map_is_bounded),
        cmocka_unit_test(test_pages_come_back_zeroed),
        cmocka_unit_test(test_large_mappings_are_aligned),
        cmocka_unit_test(test_fixed_stays_inside),
        cmocka_unit_test(test_remap_keeps_contents),
        cmocka_unit_test(test_calls_pass_when_not_captured),
        cmocka_unit_test(test_calls_are_captured),
        cmocka_unit_test(test_holds),
        cmocka_unit_test(test_break),
        cmocka_unit_test(test_reservation_counts_what_is_used),
    };
    return cmocka_run_group_tests_name("region", tests, reserve, NULL);
}
