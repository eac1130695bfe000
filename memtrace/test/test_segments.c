/* test_segments.c - segments written by mt_writer_stream, compared with the same accesses written one by one.
 *
 * Random segments run with random words, over blocks that are close together, are allocated and freed, and whose
 * freed memory is accessed, too. Both traces must contain the same accesses. The order within a segment may differ,
 * because accesses that are encoded singly come after the others. Accesses between heap events are therefore sorted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SITES = 12,
    SEGMENTS = 30,
    BLOCKS = 40,
    ROUNDS = 400,
    RUNS = 60,
    STREAM = RUNS * (MT_STREAM_ID + MT_SEGMENT_WORDS * MT_STREAM_WORD)
};

struct pair {
    uint64_t seed;
    int fd[2];
    struct mt_writer *w[2]; /* [0] takes segments, [1] accesses */
    struct mt_access access[SEGMENTS][MT_SEGMENT_MOST];
    struct mt_segment segment[SEGMENTS];
    uint64_t block[BLOCKS]; /* addresses of live blocks, 0 = none */
    uint64_t instructions;
};

static uint64_t below(struct pair *p, uint64_t n)
{
    return random_below(&p->seed, n);
}

static void make_segment(struct pair *p, uint32_t i)
{
    uint32_t words = 1 + (uint32_t)below(p, i == 0 ? MT_SEGMENT_WORDS : 3);
    uint32_t count = words + (uint32_t)below(p, 4);
    for (uint32_t k = 0; k < count; k++)
        p->access[i][k] =
            (struct mt_access){1 + (uint32_t)below(p, SITES), k < words ? k : (uint32_t)below(p, words),
                               (int32_t)below(p, 24) * 4 - 40};
    p->segment[i] = (struct mt_segment){p->access[i], count, words, (uint32_t)below(p, 9)};
    assert_int_equal(mt_writer_segment(p->w[0], &p->segment[i]), i);
}

static void start(struct pair *p, uint64_t seed)
{
    const struct mt_writer_options options = {.chunk_events = 3000};
    *p = (struct pair){.seed = seed};
    for (unsigned side = 0; side < 2; side++) {
        p->fd[side] = memory_file("", 0);
        p->w[side] = mt_writer_new(p->fd[side], &options, NULL);
        assert_non_null(p->w[side]);
        for (uint32_t i = 0; i < SITES; i++)
            mt_writer_site(p->w[side],
                           &(struct mt_site){.ip = 64 + i, .size = 1 << i % 5, .kind = MT_LOAD + i % 3});
    }
    for (uint32_t i = 0; i < SEGMENTS; i++)
        make_segment(p, i);
}

/* Allocate, free or resize a block. */
static void change_heap(struct pair *p)
{
    uint32_t i = (uint32_t)below(p, BLOCKS);
    uint64_t addr = 0x10000 + i * 96, size = 1 + below(p, 96);
    for (unsigned side = 0; side < 2; side++) {
        mt_writer_time(p->w[side], p->instructions);
        if (p->block[i])
            mt_writer_block_free(p->w[side], addr, 0, 0);
        else
            mt_writer_block_new(p->w[side], addr, size, 0, MT_HOW_MALLOC, 0);
    }
    p->block[i] = p->block[i] ? 0 : addr;
}

/* The place of a word: in a regular walk over the blocks, on the stack, or anywhere near the blocks. */
static uint64_t some_word(struct pair *p, uint64_t step)
{
    switch (below(p, 4)) {
    case 0:
        return 0x7fff0000 + below(p, 5000);
    case 1:
        return 0x10000 + below(p, BLOCKS * 96);
    default:
        return 0x10000 + step * 8 % (BLOCKS * 96);
    }
}

static void run_alone(struct pair *p, const struct mt_segment *s, const uint64_t *words)
{
    uint32_t site;
    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t addr = words[s->accesses[i].word] + (uint64_t)(int64_t)s->accesses[i].distance;
        site = s->accesses[i].site;
        mt_writer_accesses(p->w[1], &site, &addr, 1);
    }
}

/* Append a segment with these words to a stream. Returns where the next one begins. */
static uint8_t *put_segment(uint8_t *at, uint32_t id, const uint64_t *words, uint32_t count)
{
    at = mt_stream_put_id(at, id);
    for (uint32_t i = 0; i < count; i++)
        at = mt_stream_put_word(at, words[i]);
    return at;
}

/* The same for both writers: a segment, and single accesses. */
static uint8_t *run_both(struct pair *p, uint8_t *at, uint32_t id, uint64_t step)
{
    const struct mt_segment *s = &p->segment[id];
    uint64_t words[MT_SEGMENT_WORDS];
    for (uint32_t i = 0; i < s->words; i++)
        words[i] = some_word(p, step + i);
    run_alone(p, s, words);
    return put_segment(at, id, words, s->words);
}

static void run_some(struct pair *p)
{
    uint8_t stream[STREAM + MT_STREAM_BEYOND], *at = stream;
    uint64_t expected = p->instructions, counted = p->instructions;
    uint32_t first = (uint32_t)below(p, SEGMENTS), steps = (uint32_t)below(p, RUNS);
    for (uint32_t k = 0; k < steps; k++) {
        uint32_t id = below(p, 5) ? (first + k) % 4 : (uint32_t)below(p, SEGMENTS);
        at = run_both(p, at, id, k);
        expected += p->segment[id].instructions;
    }
    const size_t used = (size_t)(at - stream);
    assert_int_equal(mt_writer_stream(p->w[0], stream, used, &counted, NULL), used);
    assert_int_equal(counted, expected);
    p->instructions = counted;
}

/* Sort the accesses between two other events. */
static void sort_batches(struct reading *r)
{
    for (size_t i = 0, end; i < r->count; i = end + 1) {
        for (end = i; end < r->count && is_access(&r->events[end]);)
            end++;
        qsort(r->events + i, end - i, sizeof *r->events, by_place);
    }
}

static struct reading finish(struct pair *p, unsigned side)
{
    struct reading r = finish_trace(p->w[side], p->fd[side]);
    sort_batches(&r);
    close(p->fd[side]);
    return r;
}

static void compare(struct pair *p)
{
    struct reading a = finish(p, 0), b = finish(p, 1);
    assert_same_accesses(&a, &b);
    reading_free(&a);
    reading_free(&b);
}

static void test_random(void **state)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct pair p;
        start(&p, seed);
        for (unsigned i = 0; i < ROUNDS; i++) {
            change_heap(&p);
            run_some(&p);
        }
        compare(&p);
    }
}

/* The stream ends before data that is not a segment. */
static void test_where_it_ends(void **state)
{
    struct pair p;
    uint64_t instructions = 0;
    start(&p, 5);
    const size_t one = mt_stream_bytes(p.segment[1].words);
    uint8_t *stream = test_calloc(2, one);
    mt_stream_put_id(stream, 1);
    mt_stream_put_id(stream + one, 1);
    assert_int_equal(mt_writer_stream(p.w[0], stream, 2 * one, &instructions, NULL), 2 * one);
    for (size_t cut = 1; cut <= one; cut++) {
        /* cmocka's allocator would hide reads beyond the end from sanitizers */
        uint8_t *copy = malloc(2 * one - cut);
        memcpy(copy, stream, 2 * one - cut);
        assert_int_equal(mt_writer_stream(p.w[0], copy, 2 * one - cut, &instructions, NULL), one);
        assert_int_equal(mt_writer_skip(p.w[0], copy, 2 * one - cut, &instructions), one);
        free(copy);
    }
    const uint32_t strange[] = {SEGMENTS, UINT32_MAX, 1u << 31, 1u << 30, 1u << 24, 0xffff};
    const size_t stranges = sizeof strange / sizeof *strange;
    for (size_t i = 0; i < stranges; i++) {
        mt_stream_put_id(stream + one, strange[i]);
        assert_int_equal(mt_writer_stream(p.w[0], stream, 2 * one, &instructions, NULL), one);
        assert_int_equal(mt_writer_skip(p.w[0], stream, 2 * one, &instructions), one);
    }
    assert_int_equal(instructions, (2 + 2 * one + 2 * stranges) * p.segment[1].instructions);
    test_free(stream);
    for (unsigned side = 0; side < 2; side++) {
        mt_writer_finish(p.w[side], MT_ENDING_EXIT, NULL);
        close(p.fd[side]);
    }
}

/* A caller's own records between segments, with two ids: UINT32_MAX - the trace, or UINT32_MAX for no change; then
 * the instructions not counted. */
enum { CHANGE = 2 * MT_STREAM_ID };

static size_t take_change(void *heap, const uint8_t *at, size_t n, struct mt_change *change)
{
    const uint32_t trace = UINT32_MAX - mt_stream_id(at);
    if (trace > 9 || n < CHANGE)
        return 0;
    if (trace)
        *change = (struct mt_change){mt_stream_id(at + MT_STREAM_ID), *(uint32_t *)heap, trace, MT_VM_TRACE};
    return CHANGE;
}

/* Changes within a stream are those written one by one, at the same times. They end the stream only if cut short. */
static void test_changes_within(void **state)
{
    struct pair p;
    uint32_t heap = 0;
    uint8_t stream[STREAM + MT_STREAM_BEYOND], *at = stream;
    uint64_t counted = 0, apart = 0;
    start(&p, 7);
    for (unsigned i = 0; i < 200; i++)
        change_heap(&p);
    for (uint32_t k = 0; k < 60; k++) {
        at = run_both(&p, at, k % 3, k);
        apart += p.segment[k % 3].instructions;
        at = mt_stream_put_id(at, UINT32_MAX - k % 4);
        at = mt_stream_put_id(at, k);
        if (k % 4 == 0)
            continue;
        mt_writer_time(p.w[1], apart + k);
        mt_writer_state(p.w[1], heap, MT_VM_TRACE, k % 4);
    }
    const struct mt_between between = {take_change, &heap};
    const size_t used = (size_t)(at - stream);
    assert_int_equal(mt_writer_stream(p.w[0], stream, used - 1, &counted, &between), used - CHANGE);
    assert_int_equal(mt_writer_stream(p.w[0], at - CHANGE, CHANGE, &counted, &between), CHANGE);
    assert_int_equal(counted, apart);
    struct reading a = finish(&p, 0), b = finish(&p, 1);
    assert_int_equal(a.stats.totals.events[MT_STATE], 45);
    assert_int_equal(a.count, b.count);
    for (size_t i = 0; i < a.count; i++)
        assert_true(same_event(&a.events[i], &b.events[i]) &&
                    (a.events[i].kind != MT_STATE || a.events[i].time == b.events[i].time));
    reading_free(&a);
    reading_free(&b);
}

/* A stream contains 48 bits of a word, including words of the highest addresses and of one below 0. */
static void test_far_words(void **state)
{
    const uint64_t places[] = {0x10, 0x7ffffffff000, 0x555500000000, UINT64_MAX - 0xfff};
    const struct mt_access access = {1, 0, 0x20};
    struct pair p;
    start(&p, 11);
    p.segment[0] = (struct mt_segment){&access, 1, 1, 1};
    assert_int_equal(mt_writer_segment(p.w[0], &p.segment[0]), SEGMENTS);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint8_t stream[MT_STREAM_ID + MT_STREAM_WORD + MT_STREAM_BEYOND];
        const uint64_t word = places[i] - 0x20;
        for (unsigned side = 0; side < 2; side++)
            mt_writer_block_new(p.w[side], places[i], 64, 0, MT_HOW_MALLOC, 0);
        run_alone(&p, &p.segment[0], &word);
        const size_t used = (size_t)(put_segment(stream, SEGMENTS, &word, 1) - stream);
        assert_int_equal(mt_writer_stream(p.w[0], stream, used, &p.instructions, NULL), used);
    }
    struct reading a = finish(&p, 0), b = finish(&p, 1);
    assert_int_equal(a.stats.totals.events[MT_LOAD], 4);
    assert_int_equal(a.count, b.count);
    for (size_t i = 0; i < a.count; i++)
        assert_true(same_event(&a.events[i], &b.events[i]) && a.events[i].addr == b.events[i].addr);
    reading_free(&a);
    reading_free(&b);
}

/* A stream over several chunks, each of which begins with thread 1, belongs to one thread. */
static void test_thread_over_chunks(void **state)
{
    enum { TIMES = 100000 };
    const struct mt_access access = {1, 0, 0};
    const uint64_t word = 0x10000;
    struct pair p;
    start(&p, 13);
    p.segment[0] = (struct mt_segment){&access, 1, 1, 1};
    assert_int_equal(mt_writer_segment(p.w[0], &p.segment[0]), SEGMENTS);
    uint8_t *stream = test_calloc(TIMES + 1, MT_STREAM_ID + MT_STREAM_WORD + MT_STREAM_BEYOND), *at = stream;
    for (unsigned i = 0; i < TIMES; i++)
        at = put_segment(at, SEGMENTS, &word, 1);
    const size_t used = (size_t)(at - stream);
    mt_writer_block_new(p.w[0], word, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_thread(p.w[0], 2);
    assert_int_equal(mt_writer_stream(p.w[0], stream, used, &p.instructions, NULL), used);
    test_free(stream);
    struct reading a = finish(&p, 0), b = finish(&p, 1);
    assert_int_equal(a.count, TIMES + 1);
    for (size_t i = 1; i < a.count; i++)
        assert_int_equal(a.events[i].thread, 2);
    reading_free(&a);
    reading_free(&b);
}

/* Skipping processes and counts as much as encoding: segments of all lengths, in any order. */
static void test_skip(void **state)
{
    struct pair p;
    uint8_t stream[STREAM + MT_STREAM_BEYOND], *at = stream;
    uint64_t expected = 0, skipped = 0, all[MT_SEGMENT_WORDS];
    uint32_t first = SEGMENTS;
    memset(all, 0xff, sizeof all);
    start(&p, 9);
    for (uint32_t words = 1; words <= MT_SEGMENT_WORDS; words++) {
        struct mt_access a[MT_SEGMENT_WORDS];
        for (uint32_t i = 0; i < words; i++)
            a[i] = (struct mt_access){1, i, 0};
        assert_int_equal(mt_writer_segment(p.w[0], &(struct mt_segment){a, words, words, 3 * words}),
                         first + words - 1);
    }
    for (unsigned k = 0; k < RUNS; k++) {
        const uint32_t words = 1 + (uint32_t)below(&p, k % 2 ? 6 : MT_SEGMENT_WORDS);
        at = put_segment(at, first + words - 1, all, words);
        expected += 3 * words;
    }
    const size_t used = (size_t)(at - stream);
    assert_int_equal(mt_writer_skip(p.w[0], stream, used, &skipped), used);
    assert_int_equal(skipped, expected);
    for (unsigned side = 0; side < 2; side++) {
        assert_int_equal(mt_writer_finish(p.w[side], MT_ENDING_EXIT, NULL), MT_OK);
        close(p.fd[side]);
    }
}

static void test_bad_definitions(void **state)
{
    struct pair p;
    start(&p, 7);
    const struct mt_access a[] = {{1, 0, 0}, {1, 0, 65536}}, unknown = {SITES + 1, 0, 0}, none = {0, 0, 0};
    const struct mt_segment bad[] = {{a, 0, 1, 1},   {a, 1, 0, 1},        {a, 1, 2, 1},     {a, 2, 1, 1},
                                     {a, 1, 1, 256}, {&unknown, 1, 1, 1}, {&none, 1, 1, 1}, {a, 65, 1, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mt_writer_segment(p.w[0], &bad[i]), UINT32_MAX);
    for (unsigned side = 0; side < 2; side++) {
        assert_int_equal(mt_writer_finish(p.w[side], MT_ENDING_EXIT, NULL), MT_OK);
        close(p.fd[side]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),    cmocka_unit_test(test_where_it_ends),
        cmocka_unit_test(test_far_words), cmocka_unit_test(test_changes_within),
        cmocka_unit_test(test_skip),      cmocka_unit_test(test_bad_definitions),
        cmocka_unit_test(test_thread_over_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
