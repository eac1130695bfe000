/* test_picture.c - the map of the heap in cells, and what is drawn of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/frame.h"
#include "drivers/test/test_units.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 100, EXTENT = 100 * 64 };

static float share(const struct heapmap *m, uint64_t cell, enum heap_layer layer)
{
    return m->cell[cell].share[layer];
}

static void test_map_covers_cells(void **state)
{
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    assert_int_equal(m.cell_bytes, 64);
    heapmap_add(&m, LAYER_USED, 32, 128, 1); /* half of 0, all of 1, half of 2 */
    heapmap_frame(&m);
    assert_true(share(&m, 0, LAYER_USED) == 0.5f && share(&m, 1, LAYER_USED) == 1.0f);
    assert_true(share(&m, 2, LAYER_USED) == 0.5f && share(&m, 3, LAYER_USED) == 0.0f);
    heapmap_add(&m, LAYER_USED, 32, 128, -1);
    heapmap_frame(&m);
    for (uint64_t i = 0; i < CELLS; i++)
        assert_true(share(&m, i, LAYER_USED) == 0.0f);
}

/* Random blocks against a byte array. */
static void test_map_equals_bytes(void **state)
{
    static unsigned char bytes[EXTENT];
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    srand(7);
    for (int i = 0; i < 400; i++) {
        uint64_t at = (uint64_t)rand() % EXTENT, n = (uint64_t)rand() % 1000;
        if (at + n > EXTENT || memchr(bytes + at, 1, n))
            continue;
        memset(bytes + at, 1, n);
        heapmap_add(&m, LAYER_USED, at, n, 1);
    }
    heapmap_frame(&m);
    for (uint64_t cell = 0; cell < CELLS; cell++) {
        int sum = 0;
        for (int i = 0; i < 64; i++)
            sum += bytes[cell * 64 + (uint64_t)i];
        assert_true(share(&m, cell, LAYER_USED) == (float)sum / 64);
    }
}

static void test_map_cuts_off(void **state)
{
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    heapmap_add(&m, LAYER_USED, EXTENT - 32, 1000, 1);
    heapmap_add(&m, LAYER_USED, EXTENT + 5, 10, 1);
    heapmap_add(&m, LAYER_USED, UINT64_MAX - 5, 3, 1);
    heapmap_frame(&m);
    assert_true(share(&m, CELLS - 1, LAYER_USED) == 0.5f);
}

static void test_glow_fades(void **state)
{
    struct heapmap m;
    assert_true(heapmap_open(&m, EXTENT, CELLS));
    heapmap_add(&m, LAYER_FRESH, 0, 64, 1);
    heapmap_frame(&m);
    assert_int_equal(m.cell[0].fresh, HEAT_FULL);
    assert_true(m.cell[0].seen && !m.cell[1].seen);
    heapmap_frame(&m);
    assert_int_equal(m.cell[0].fresh, HEAT_FULL - 1);
    for (int i = 0; i < 2 * HEAT_FULL; i++)
        heapmap_frame(&m);
    assert_int_equal(m.cell[0].fresh, 0);
    assert_true(m.cell[0].seen);
}

static uint32_t pixel_of_cell(const struct frame *f, int cell)
{
    int x = f->left + cell % f->columns * f->cell, y = f->top + cell / f->columns * f->cell;
    return f->canvas.pixels[y * f->canvas.width + x];
}

/* Used, locked, overhead, free and never used are five different colours. */
static void test_states_differ(void **state)
{
    struct frame f;
    struct heapmap m;
    struct frame_facts facts = {.name = "test", .op = 1, .total = 2, .heap = EXTENT};
    uint32_t seen[5];
    assert_true(frame_open(&f, 640, 360, EXTENT));
    assert_true(heapmap_open(&m, EXTENT, frame_cells(&f)));
    uint64_t c = m.cell_bytes;
    heapmap_add(&m, LAYER_USED, 0, 2 * c, 1);
    heapmap_add(&m, LAYER_LOCKED, c, c, 1);
    heapmap_add(&m, LAYER_OVERHEAD, 2 * c, c, 1);
    heapmap_add(&m, LAYER_FRESH, 3 * c, c, 1);
    heapmap_frame(&m);
    heapmap_cool(&m);
    frame_paint(&f, &m, &facts);
    for (int i = 0; i < 5; i++) {
        seen[i] = pixel_of_cell(&f, i);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    }
}

static void test_letters_differ(void **state)
{
    for (int a = '0'; a <= 'z'; a++)
        for (int b = '0'; b < a; b++)
            if ((a <= '9' || (a >= 'A' && a <= 'Z') || a >= 'a') &&
                (b <= '9' || (b >= 'A' && b <= 'Z') || b >= 'a'))
                assert_memory_not_equal(font_rows((char)a), font_rows((char)b), FONT_HEIGHT);
    assert_int_equal(font_rows('\x80')[0], 0x1f);
}

int run_picture_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_covers_cells), cmocka_unit_test(test_map_equals_bytes),
        cmocka_unit_test(test_map_cuts_off),     cmocka_unit_test(test_glow_fades),
        cmocka_unit_test(test_states_differ),    cmocka_unit_test(test_letters_differ),
    };
    return cmocka_run_group_tests_name("picture", tests, NULL, NULL);
}
