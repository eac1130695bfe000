/* test_reach.c - which blocks are reachable at the end: compared with a simple model on random graphs, and which
 * values count as pointers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 24, SIZE = 48, OUTSIDE = 0x1000, HEAP = 0x100000 };

/* A small graph: [from][to] of pointers to the beginning, and to the middle, of a block. Row MOST is outside. */
struct graph {
    unsigned blocks;
    bool start[MOST + 1][MOST], middle[MOST + 1][MOST];
};

static uint64_t place(unsigned block)
{
    return HEAP + block * 4096 * 3;
}

/* How each block of the trace is reached, enum mt_reach. */
struct result {
    uint8_t of[MOST];
    bool reported;
};

static struct result read_reached(struct mt_writer *w, int fd)
{
    struct result result = {0};
    struct reading got = finish_trace(w, fd);
    uint64_t counted = 0;
    for (size_t i = 0; i < got.count; i++) {
        const struct mt_event *e = &got.events[i];
        if (e->kind != MT_REACH)
            continue;
        assert_true(e->handle < MOST && e->ref < MT_REACHES && e->ref != MT_REACH_FULL);
        assert_int_equal(result.of[e->handle], MT_REACH_FULL);
        result.of[e->handle] = (uint8_t)e->ref;
        counted++;
    }
    assert_int_equal(got.stats.totals.events[MT_REACH], counted);
    reading_free(&got);
    return result;
}

static struct result search(const struct graph *g)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    for (unsigned i = 0; i < g->blocks; i++)
        mt_writer_block_new(w, place(i), SIZE, 0, MT_HOW_MALLOC, 0);
    for (unsigned from = 0; from <= MOST; from++)
        for (unsigned to = 0; to < g->blocks; to++) {
            uint64_t at = from == MOST ? OUTSIDE + 8 * to : place(from) + to % 6 * 8;
            if (g->start[from][to])
                mt_writer_pointer(w, at, place(to), from != MOST);
            if (g->middle[from][to])
                mt_writer_pointer(w, at, place(to) + 1 + to, from != MOST);
        }
    mt_writer_reach(w);
    return read_reached(w, fd);
}

/* Add to `set` the nodes that pointers lead to from nodes in it, until there are no more. */
static void close_set(const struct graph *g, bool set[MOST], bool middles)
{
    for (bool more = true; more;) {
        more = false;
        for (unsigned from = 0; from < g->blocks; from++)
            for (unsigned to = 0; to < g->blocks; to++)
                if (set[from] && !set[to] && (g->start[from][to] || (middles && g->middle[from][to])))
                    set[to] = more = true;
    }
}

static void check_lost(const struct graph *g, const bool possible[MOST], const struct result *r)
{
    bool covered[MOST] = {0};
    for (unsigned i = 0; i < g->blocks; i++) {
        bool from_one[MOST] = {[0] = false};
        if (r->of[i] != MT_REACH_LOST)
            continue;
        from_one[i] = true;
        close_set(g, from_one, true);
        for (unsigned k = 0; k < g->blocks; k++) {
            covered[k] |= from_one[k];
            assert_false(k != i && from_one[k] && r->of[k] == MT_REACH_LOST);
        }
    }
    for (unsigned i = 0; i < g->blocks; i++)
        assert_true(possible[i] || covered[i]);
}

static void check(const struct graph *g)
{
    bool full[MOST] = {0}, possible[MOST] = {0};
    struct result r = search(g);
    memcpy(full, g->start[MOST], sizeof full);
    close_set(g, full, false);
    for (unsigned i = 0; i < g->blocks; i++)
        possible[i] = full[i] || g->middle[MOST][i];
    close_set(g, possible, true);
    for (unsigned i = 0; i < g->blocks; i++) {
        assert_int_equal(r.of[i] == MT_REACH_FULL, full[i]);
        assert_int_equal(r.of[i] == MT_REACH_POSSIBLE, possible[i] && !full[i]);
    }
    check_lost(g, possible, &r);
}

static void test_random(void **state)
{
    uint64_t seed = 36;
    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        struct graph g = {.blocks = 1 + (unsigned)random_below(&seed, MOST)};
        unsigned pointers = (unsigned)random_below(&seed, 2 * g.blocks + 1);
        for (unsigned i = 0; i < pointers; i++) {
            unsigned from = (unsigned)random_below(&seed, g.blocks + 2),
                     to = (unsigned)random_below(&seed, g.blocks);
            from = from < g.blocks ? from : MOST;
            *(random_below(&seed, 4) ? &g.start[from][to] : &g.middle[from][to]) = true;
        }
        check(&g);
    }
}

/* Of two blocks that lead to each other, one is lost; a block to which both lead, and itself, is not. */
static void test_circles(void **state)
{
    struct graph g = {.blocks = 4};
    (void)state;
    g.start[1][2] = g.start[2][1] = g.start[2][0] = g.start[0][0] = g.start[3][3] = true;
    struct result r = search(&g);
    assert_int_equal(r.of[0], MT_REACH_INDIRECT);
    assert_int_equal(r.of[1], MT_REACH_LOST);
    assert_int_equal(r.of[2], MT_REACH_INDIRECT);
    assert_int_equal(r.of[3], MT_REACH_LOST);
}

static struct mt_writer *two_blocks(int fd, uint64_t second_size)
{
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    mt_writer_block_new(w, HEAP, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, HEAP + 128, second_size, 0, MT_HOW_MALLOC, 0);
    return w;
}

/* The byte after a block is not in it; a block of size 0 has only a beginning. */
static void test_bounds(void **state)
{
    (void)state;
    int fd = memory_file("", 0);
    struct mt_writer *w = two_blocks(fd, 0);
    mt_writer_pointer(w, OUTSIDE, HEAP + 64, false);
    mt_writer_pointer(w, OUTSIDE, HEAP - 1, false);
    mt_writer_pointer(w, OUTSIDE, HEAP + 128, false);
    mt_writer_reach(w);
    struct result r = read_reached(w, fd);
    assert_int_equal(r.of[0], MT_REACH_LOST);
    assert_int_equal(r.of[1], MT_REACH_FULL);
}

/* A word in memory that was freed to malloc is no pointer, be that known as malloc's memory or next to a live
 * block. */
static void test_left_over(void **state)
{
    (void)state;
    int fd = memory_file("", 0);
    struct mt_writer *w = two_blocks(fd, 16);
    mt_writer_pointer(w, HEAP + 1024, HEAP, false);
    mt_writer_pointer(w, HEAP + 4096, HEAP, true);
    mt_writer_pointer(w, HEAP + 4096, HEAP + 128, false);
    mt_writer_reach(w);
    struct result r = read_reached(w, fd);
    assert_int_equal(r.of[0], MT_REACH_LOST);
    assert_int_equal(r.of[1], MT_REACH_FULL);
}

/* Only the page of a word decides whether it is regarded as malloc's memory, not the next one. */
static void test_page_before(void **state)
{
    (void)state;
    int fd = memory_file("", 0);
    struct mt_writer *w = two_blocks(fd, 16);
    mt_writer_pointer(w, HEAP - 8, HEAP, false);
    mt_writer_pointer(w, HEAP + 4088, HEAP + 128, false);
    mt_writer_reach(w);
    struct result r = read_reached(w, fd);
    assert_int_equal(r.of[0], MT_REACH_FULL);
    assert_int_equal(r.of[1], MT_REACH_LOST);
}

/* A Lua heap's memory holds what it points to, in and outside of its blocks; its own blocks have no class. */
static void test_lua(void **state)
{
    (void)state;
    int fd = memory_file("", 0);
    struct mt_writer *w = two_blocks(fd, 16);
    uint32_t lua = mt_writer_heap(w, &(struct mt_heap){.id = 1, .kind = MT_HEAP_LUA});
    mt_writer_block_new(w, 2 * HEAP, 64, lua, MT_HOW_LUA, 0);
    mt_writer_pointer(w, 2 * HEAP + 8, HEAP, false);
    mt_writer_pointer(w, 2 * HEAP + 80, HEAP + 128, false);
    mt_writer_pointer(w, OUTSIDE, 2 * HEAP, false);
    mt_writer_reach(w);
    struct result r = read_reached(w, fd);
    for (unsigned i = 0; i < MOST; i++)
        assert_int_equal(r.of[i], MT_REACH_FULL);
}

/* What a pool divides is in use, also between its blocks; its blocks have to be reached. */
static void test_pool(void **state)
{
    (void)state;
    int fd = memory_file("", 0);
    struct mt_writer *w = two_blocks(fd, 1024);
    uint32_t pool = mt_writer_heap(w, &(struct mt_heap){.id = 1, .kind = MT_HEAP_CUSTOM});
    mt_writer_block_new(w, HEAP + 256, 64, pool, MT_HOW_CUSTOM, 0);
    mt_writer_block_new(w, HEAP + 512, 64, pool, MT_HOW_CUSTOM, 0);
    mt_writer_pointer(w, HEAP + 128, HEAP + 256, true);
    mt_writer_pointer(w, HEAP + 256, HEAP, true);
    mt_writer_reach(w);
    struct result r = read_reached(w, fd);
    assert_int_equal(r.of[0], MT_REACH_FULL);
    assert_int_equal(r.of[1], MT_REACH_FULL); /* freed: the pool's blocks have reused its memory */
    assert_int_equal(r.of[2], MT_REACH_FULL);
    assert_int_equal(r.of[3], MT_REACH_LOST);
}

/* Does a trace of many blocks, of limited size, have the info that the search was done? If so, checks that it has
 * the classes of all blocks. */
static bool says_so(uint64_t limit)
{
    enum { BLOCKS = 3000 };
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, &(struct mt_writer_options){.chunk_events = 100}, NULL);
    mt_writer_limit(w, limit, "limit");
    for (unsigned i = 0; i < BLOCKS; i++)
        mt_writer_block_new(w, HEAP + 64 * i, 32, 0, MT_HOW_MALLOC, 0);
    mt_writer_reach(w);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    const struct mt_event *events;
    uint64_t lost = 0;
    for (size_t n = 0; mt_next(r, &events, &n) == MT_MORE;)
        for (size_t i = 0; i < n; i++)
            lost += events[i].kind == MT_REACH;
    const bool found = strcmp(mt_info(r, MT_INFO_REACH), "done") == 0;
    assert_int_equal(found ? BLOCKS : lost, lost);
    mt_close(r);
    close(fd);
    return found;
}

/* The info is in a file with all classes, and in no other. */
static void test_limited(void **state)
{
    (void)state;
    unsigned silent = 0;
    assert_true(says_so(10 << 20));
    for (uint64_t limit = 4000; !says_so(limit); limit += 61)
        silent++;
    assert_true(silent > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),    cmocka_unit_test(test_circles),     cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_left_over), cmocka_unit_test(test_lua),         cmocka_unit_test(test_pool),
        cmocka_unit_test(test_limited),   cmocka_unit_test(test_page_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
