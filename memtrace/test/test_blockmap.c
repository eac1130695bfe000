/* test_blockmap.c - compares the block map, and the map of overlapping blocks, with a linear search through all blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/blocks/blockmap.h"
#include "memtrace/blocks/overlay.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 300 };

/* The slow model: live blocks by slot. */
struct model {
    bool live[MAX_BLOCKS];
    uint64_t base[MAX_BLOCKS], size[MAX_BLOCKS];
};

static bool overlaps(const struct model *s, uint32_t i, uint64_t base, uint64_t size)
{
    return s->live[i] && s->base[i] <= span_last(base, size) && span_last(s->base[i], s->size[i]) >= base;
}

static bool overlaps_any(const struct model *s, uint64_t base, uint64_t size, uint32_t except)
{
    for (uint32_t i = 0; i < MAX_BLOCKS; i++)
        if (i != except && overlaps(s, i, base, size))
            return true;
    return false;
}

static uint32_t holder(const struct model *s, uint64_t addr)
{
    for (uint32_t i = 0; i < MAX_BLOCKS; i++)
        if (s->live[i] && addr - s->base[i] < s->size[i])
            return i;
    return NO_SLOT;
}

static uint32_t beginner(const struct model *s, uint64_t addr)
{
    for (uint32_t i = 0; i < MAX_BLOCKS; i++)
        if (s->live[i] && s->base[i] == addr)
            return i;
    return NO_SLOT;
}

static void check_addr(const struct blockmap *m, const struct model *s, uint64_t addr)
{
    assert_int_equal(blockmap_find(m, addr), holder(s, addr));
    assert_int_equal(blockmap_at(m, addr), beginner(s, addr));
}

/* Check around the edges of a block and at random places. */
static void check(const struct blockmap *m, const struct model *s, uint64_t *seed, uint64_t base,
                  uint64_t size)
{
    for (int d = -17; d <= 17; d++) {
        check_addr(m, s, base + (uint64_t)d);
        check_addr(m, s, base + size + (uint64_t)d);
    }
    for (int i = 0; i < 8; i++)
        check_addr(m, s, base + random_below(seed, size + 1));
}

static void add(struct blockmap *m, struct model *s, uint64_t base, uint64_t size)
{
    uint32_t slot;
    assert_false(blockmap_is_clear(m, base, size) && overlaps_any(s, base, size, NO_SLOT));
    while ((slot = blockmap_overlap(m, base, size, NO_SLOT)) != NO_SLOT) {
        assert_true(overlaps(s, slot, base, size));
        blockmap_remove(m, slot);
        s->live[slot] = false;
    }
    assert_false(overlaps_any(s, base, size, NO_SLOT));
    slot = blockmap_add(m, base, size, 0, 0);
    assert_true(slot < MAX_BLOCKS && !s->live[slot]);
    s->live[slot] = true;
    s->base[slot] = base;
    s->size[slot] = size;
}

static uint32_t any_live(const struct model *s, uint64_t *seed)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t i = (uint32_t)random_below(seed, MAX_BLOCKS);
        if (s->live[i])
            return i;
    }
    return NO_SLOT;
}

static void move(struct blockmap *m, struct model *s, uint32_t slot, uint64_t base, uint64_t size)
{
    bool blocked = overlaps_any(s, base, size, slot);
    uint32_t other = blockmap_overlap(m, base, size, slot);
    assert_int_equal(blocked, other != NO_SLOT);
    if (blocked)
        return;
    assert_true(blockmap_move(m, slot, base, size));
    s->base[slot] = base;
    s->size[slot] = size;
}

/* Random adds, removes and moves in a space of `range` bytes from `start`, with sizes below 2^max_bits. */
static void run(uint64_t seed, uint64_t start, uint64_t range, unsigned max_bits, int steps)
{
    struct blockmap m;
    struct model s = {0};
    assert_true(blockmap_init(&m));
    for (int i = 0; i < steps; i++) {
        uint64_t base = start + random_below(&seed, range);
        uint64_t size = random_next(&seed) >> (64 - random_below(&seed, max_bits) - 1);
        size = random_below(&seed, 8) ? size : 0;
        size = span_fits(base, size) ? size : 0 - base;
        uint32_t slot = any_live(&s, &seed);
        unsigned action = (unsigned)random_below(&seed, m.live >= MAX_BLOCKS - 1 ? 2 : 8);
        if (action == 0 && slot != NO_SLOT) {
            blockmap_remove(&m, slot);
            s.live[slot] = false;
        } else if (action == 1 && slot != NO_SLOT) {
            move(&m, &s, slot, base, size);
        } else if (action > 1) {
            add(&m, &s, base, size);
        }
        check(&m, &s, &seed, base, size);
    }
    blockmap_destroy(&m);
}

static void test_crowded(void **state)
{
    run(1, 0x1000, 600, 4, 4000);
    run(2, 0x7ff0, 64, 3, 2000);
}

static void test_pages(void **state)
{
    run(3, 0x10000, 100000, 14, 3000);
    run(4, 0, 20000, 13, 3000);
}

static void test_large(void **state)
{
    run(5, 0x7f0000000000, (uint64_t)1 << 33, 32, 2000);
    run(6, 0x200000 - 4096, (uint64_t)1 << 24, 23, 2000);
}

static void test_whole_space(void **state)
{
    run(7, 0, UINT64_MAX, 64, 1000);
    run(8, UINT64_MAX - 100000, 100000, 30, 2000);
}

static void test_everything_in_one_block(void **state)
{
    struct blockmap m;
    assert_true(blockmap_init(&m));
    assert_int_equal(blockmap_add(&m, 0, UINT64_MAX, 0, 0), 0);
    assert_int_equal(blockmap_find(&m, 0), 0);
    assert_int_equal(blockmap_find(&m, UINT64_MAX - 1), 0);
    assert_int_equal(blockmap_find(&m, UINT64_MAX), NO_SLOT);
    assert_int_equal(blockmap_overlap(&m, 12345, 0, NO_SLOT), 0);
    blockmap_remove(&m, 0);
    assert_int_equal(blockmap_find(&m, 5), NO_SLOT);
    for (unsigned i = 0; i < BLOCKMAP_LEVELS; i++)
        assert_int_equal(m.levels[i].count, 0);
    blockmap_destroy(&m);
}

/* A range may be clear although its granules are shared with blocks; one in a page of a large block is not. */
static void test_clear(void **state)
{
    struct blockmap m;
    assert_true(blockmap_init(&m));
    assert_true(blockmap_is_clear(&m, 0x5008, 24));
    blockmap_add(&m, 0x5000, 8, 0, 0);
    assert_false(blockmap_is_clear(&m, 0x5008, 24)); /* the page has one block, which is not looked at */
    blockmap_add(&m, 0x5020, 8, 0, 1);
    assert_true(blockmap_is_clear(&m, 0x5008, 24));
    assert_true(blockmap_is_clear(&m, 0x5008, 0));
    assert_false(blockmap_is_clear(&m, 0x5007, 1));
    assert_false(blockmap_is_clear(&m, 0x5008, 25));
    assert_false(blockmap_is_clear(&m, 0x5ff8, 16)); /* two pages */
    blockmap_add(&m, 0x400000, 0x200000, 0, 2);
    assert_false(blockmap_is_clear(&m, 0x401008, 8));
    blockmap_destroy(&m);
}

/* Slots are reused, the last one freed first. */
static void test_slots(void **state)
{
    struct blockmap m;
    assert_true(blockmap_init(&m));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(blockmap_add(&m, 64 * (i + 1), 64, 0, i), i);
    blockmap_remove(&m, 0);
    blockmap_remove(&m, 2);
    assert_int_equal(blockmap_add(&m, 640, 8, 0, 3), 2);
    assert_int_equal(blockmap_add(&m, 720, 8, 0, 4), 0);
    assert_int_equal(m.live, 3);
    blockmap_destroy(&m);
}

/* After all blocks were removed, no entry is left. */
static void test_nothing_left(void **state)
{
    struct blockmap m;
    uint64_t seed = 9;
    assert_true(blockmap_init(&m));
    for (int i = 0; i < 500; i++) {
        uint64_t base = random_next(&seed), size = random_next(&seed) >> (16 + random_below(&seed, 48));
        uint32_t slot;
        size = span_fits(base, size) ? size : 0 - base;
        while ((slot = blockmap_overlap(&m, base, size, NO_SLOT)) != NO_SLOT)
            blockmap_remove(&m, slot);
        assert_true(blockmap_add(&m, base, size, 0, 0) != NO_SLOT);
    }
    for (uint32_t i = 0; i < m.used; i++)
        if (m.blocks[i].heap != DEAD_HEAP)
            blockmap_remove(&m, i);
    for (unsigned i = 0; i < BLOCKMAP_LEVELS; i++) {
        assert_int_equal(m.levels[i].count, 0);
        assert_int_equal(m.owners[i], 0);
    }
    blockmap_destroy(&m);
}

/* -- blocks that may overlap -- */

/* The newest block of the model that contains an address or, if not `whole`, begins there; ages by slot. */
static uint32_t newest(const struct model *s, const uint64_t *age, uint64_t addr, bool whole)
{
    uint32_t best = NO_SLOT;
    for (uint32_t i = 0; i < MAX_BLOCKS; i++)
        if (s->live[i] && (whole ? addr - s->base[i] < s->size[i] : addr == s->base[i]) &&
            (best == NO_SLOT || age[i] > age[best]))
            best = i;
    return best;
}

/* An address in the range where the blocks are; half of them in its beginning, where many overlap. */
static uint64_t random_address(uint64_t *seed)
{
    return 0x10000 + random_below(seed, random_below(seed, 2) ? 256 : 1 << 14);
}

static void compare(const struct overlay *o, const struct model *s, const uint64_t *age, uint64_t addr)
{
    assert_int_equal(overlay_find(o, addr), newest(s, age, addr, true));
    assert_int_equal(overlay_at(o, addr), newest(s, age, addr, false));
}

static void test_overlapping(void **state)
{
    struct model s = {0};
    struct overlay o;
    uint64_t age[MAX_BLOCKS] = {0}, seed = 1, live = 0;
    overlay_init(&o);
    for (uint64_t step = 1; step < 20000; step++) {
        uint32_t slot = random_below(&seed, MAX_BLOCKS);
        if (s.live[slot]) {
            overlay_remove(&o, slot);
            s.live[slot] = false;
            live--;
        } else if (live < MAX_BLOCKS / 2) {
            const uint64_t base = random_address(&seed),
                           size = random_below(&seed, 1 << random_below(&seed, 13));
            slot = overlay_add(&o, base, size, 0, step);
            assert_true(slot < MAX_BLOCKS && !s.live[slot]);
            s.live[slot] = true;
            s.base[slot] = base;
            s.size[slot] = size;
            age[slot] = step;
            live++;
        }
        for (int i = 0; i < 8; i++)
            compare(&o, &s, age, random_address(&seed));
        compare(&o, &s, age, s.base[slot]);
        compare(&o, &s, age, s.base[slot] + s.size[slot]);
        assert_int_equal(o.live, live);
    }
    overlay_destroy(&o);
}

/* More blocks than the first table has lists, pairs that overlap by half. */
static void test_many_overlapping(void **state)
{
    enum { MANY = 5000, STEP = 64 };
    struct overlay o;
    overlay_init(&o);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(overlay_add(&o, (uint64_t)(i + 1) * STEP, 2 * STEP, 0, i), i);
    for (uint32_t i = 0; i < MANY; i++) {
        const uint64_t base = (uint64_t)(i + 1) * STEP;
        assert_int_equal(overlay_at(&o, base), i);
        assert_int_equal(overlay_find(&o, base + 1), i);
        assert_int_equal(overlay_find(&o, base + STEP), i + 1 < MANY ? i + 1 : i);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        overlay_remove(&o, i);
        assert_int_equal(overlay_at(&o, (uint64_t)(i + 1) * STEP), NO_SLOT);
    }
    overlay_destroy(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_whole_space),
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_everything_in_one_block),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_overlapping),
        cmocka_unit_test(test_many_overlapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
