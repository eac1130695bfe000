/* test_fusion.c - segments that repeatedly follow one another are fused, without any effect on the events.
 *
 * The same programs are written as segments and as single accesses: loops of segments that are sometimes left early,
 * over blocks that are allocated and freed, with words on the stack, in freed memory, and across the ends of blocks.
 * The accesses must be the same in the same order, except within one segment (test_segments.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <stdlib.h>
#include <unistd.h>

enum { LATE = 10, KINDS, SITES_EACH = 4, WORDS_MOST = 3, BLOCKS = 12, ROUNDS = 2500, STREAM = 24000 };

/* What the program repeats; -1 ends the list. */
static const int loops[][8] = {{0, 1, 2, 3, -1}, {4, -1}, {5, 6, 7, 8, 9, 0, 6, -1}, {3, LATE, -1}};
enum { LOOPS = sizeof loops / sizeof *loops };

struct run {
    uint64_t seed, instructions, turn;
    int fd[2];
    struct mt_writer *w[2]; /* [0] takes segments, [1] accesses */
    struct mt_access access[KINDS][SITES_EACH];
    struct mt_segment segment[KINDS];
    bool lives[BLOCKS];
    uint8_t stream[STREAM];
    size_t used;   /* bytes */
    unsigned said; /* segments */
};

static uint64_t below(struct run *r, uint64_t n)
{
    return random_below(&r->seed, n);
}

static void make_segment(struct run *r, uint32_t i)
{
    uint32_t words = 1 + i % WORDS_MOST;
    for (uint32_t k = 0; k < SITES_EACH; k++)
        r->access[i][k] = (struct mt_access){1 + i * SITES_EACH + k, k % words, (int32_t)below(r, 5) * 4};
    r->segment[i] = (struct mt_segment){r->access[i], SITES_EACH, words, i * 3};
    assert_int_equal(mt_writer_segment(r->w[0], &r->segment[i]), i);
}

static void start(struct run *r, uint64_t seed)
{
    const struct mt_writer_options options = {.chunk_events = 30000};
    *r = (struct run){.seed = seed};
    for (unsigned side = 0; side < 2; side++) {
        r->fd[side] = memory_file("", 0);
        r->w[side] = mt_writer_new(r->fd[side], &options, NULL);
        for (uint32_t i = 0; i < KINDS * SITES_EACH; i++)
            mt_writer_site(r->w[side],
                           &(struct mt_site){.ip = 64 + i, .size = 1 << i % 4, .kind = MT_LOAD + i % 3});
    }
    for (uint32_t i = 0; i < LATE; i++)
        make_segment(r, i);
}

static void change_heap(struct run *r)
{
    uint32_t i = (uint32_t)below(r, BLOCKS);
    for (unsigned side = 0; side < 2; side++) {
        mt_writer_time(r->w[side], r->instructions);
        if (r->lives[i])
            mt_writer_block_free(r->w[side], 0x10000 + i * 512, 0, 0);
        else
            mt_writer_block_new(r->w[side], 0x10000 + i * 512, 400, 0, MT_HOW_MALLOC, 0);
    }
    r->lives[i] = !r->lives[i];
}

/* Mostly a walk over a block; otherwise any place in and between blocks, or on the stack. */
static uint64_t some_word(struct run *r, uint64_t block, uint64_t step)
{
    switch (below(r, 60)) {
    case 0:
        return 0x7fff0000 + below(r, 5000);
    case 1:
        return 0x10000 + below(r, BLOCKS * 512);
    default:
        return 0x10000 + block * 512 + step * 8 % 400;
    }
}

static void say(struct run *r, uint32_t id, uint64_t block)
{
    const struct mt_segment *s = &r->segment[id];
    uint64_t words[WORDS_MOST];
    uint8_t *at = mt_stream_put_id(r->stream + r->used, id);
    r->said++;
    for (uint32_t i = 0; i < s->words; i++) {
        words[i] = some_word(r, (block + i) % BLOCKS, r->turn);
        at = mt_stream_put_word(at, words[i]);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const struct mt_access *a = &s->accesses[i];
        uint64_t addr = words[a->word] + (uint64_t)(int64_t)a->distance;
        mt_writer_accesses(r->w[1], &a->site, &addr, 1);
    }
    r->used = (size_t)(at - r->stream);
    r->instructions += s->instructions;
}

/* Run loops, most of which end where they began. `kinds` is the number of kinds of loops, which change halfway. */
static void run_loops(struct run *r, unsigned from, unsigned kinds)
{
    uint64_t counted = r->instructions;
    r->used = 0;
    for (unsigned n = 1 + (unsigned)below(r, 3); n; n--) {
        const int *loop = loops[from + below(r, kinds)];
        uint64_t block = below(r, BLOCKS);
        for (unsigned turns = (unsigned)below(r, 40); turns; turns--, r->turn++)
            for (unsigned i = 0; loop[i] >= 0 && (i == 0 || below(r, 300)); i++)
                say(r, (uint32_t)loop[i], block);
    }
    assert_int_equal(mt_writer_stream(r->w[0], r->stream, r->used, &counted, NULL), r->used);
    assert_int_equal(counted, r->instructions);
}

/* The segment of an access, according to its site; otherwise -1. */
static int kind_of(const struct mt_event *e)
{
    return is_access(e) ? (int)((e->ref - 1) / SITES_EACH) : -1;
}

/* Sort the accesses of one segment, or of the same one several times. */
static void sort_segments(struct reading *r)
{
    for (size_t i = 0, end; i < r->count; i = end) {
        for (end = i + 1; end < r->count && kind_of(&r->events[end]) == kind_of(&r->events[i]);)
            end++;
        if (kind_of(&r->events[i]) >= 0)
            qsort(r->events + i, end - i, sizeof *r->events, by_place);
    }
}

/* Number of segments in the file with more accesses than any that this test defined. */
static unsigned fused(int fd)
{
    struct mt_error err = {0};
    struct mt_reader *reader = mt_open(memory_path(fd), 0, &err);
    struct mt_batch p;
    unsigned found = 0;
    assert_non_null(reader);
    while (mt_next_batch(reader, &p) == MT_MORE)
        for (size_t i = 0; i < p.n_steps; i++)
            found +=
                p.steps[i].segment != MT_STEP_EVENTS && p.segments[p.steps[i].segment].count > SITES_EACH;
    mt_close(reader);
    return found;
}

static struct reading finish(struct run *r, unsigned side)
{
    struct reading got = finish_trace(r->w[side], r->fd[side]);
    sort_segments(&got);
    return got;
}

static void compare(struct run *r)
{
    struct reading a = finish(r, 0), b = finish(r, 1);
    assert_same_accesses(&a, &b);
    reading_free(&a);
    reading_free(&b);
}

static void close_files(struct run *r)
{
    for (unsigned side = 0; side < 2; side++)
        close(r->fd[side]);
}

static void run_program(struct run *r)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i == ROUNDS / 2 && !r->segment[LATE].count)
            make_segment(r, LATE); /* defined after others were fused */
        if (below(r, 4) == 0)
            change_heap(r);
        run_loops(r, i < ROUNDS / 2 ? 0 : 1, 3);
    }
}

static void test_loops(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct run *r = calloc(1, sizeof *r);
        start(r, seed);
        run_program(r);
        compare(r);
        assert_true(fused(r->fd[0]) > r->said / 20);
        assert_int_equal(fused(r->fd[1]), 0);
        close_files(r);
        free(r);
    }
}

/* The writer of a forked process has the same segment ids and fuses its own segments. */
static void test_fork(void **state)
{
    struct run *r = calloc(1, sizeof *r), *child = calloc(1, sizeof *child);
    (void)state;
    start(r, 9);
    run_program(r);
    *child = *r;
    for (unsigned side = 0; side < 2; side++) {
        child->fd[side] = memory_file("", 0);
        child->w[side] = mt_writer_fork(r->w[side], child->fd[side], NULL, NULL);
        assert_non_null(child->w[side]);
    }
    run_program(child);
    compare(child);
    assert_true(fused(child->fd[0]) > child->said / 40);
    compare(r);
    close_files(child);
    close_files(r);
    free(child);
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loops), cmocka_unit_test(test_fork)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
