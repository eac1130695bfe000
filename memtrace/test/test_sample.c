/* test_sample.c - weights of blocks of a sample: compared with the C library's functions, and numbers without bias; the
 * traces of samples by blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void test_weight(void **state)
{
    (void)state;
    for (double mean = 1; mean < 1e12; mean *= 7)
        for (double size = 1; size < 1e12; size *= 3) {
            const struct mt_sample sample = {.mean = (uint64_t)mean, .seed = (uint64_t)(mean * size)};
            const double wanted = -1 / expm1(-floor(size) / floor(mean));
            const double found = mt_sample_weight(&sample, 5, (uint64_t)size);
            assert_true(fabs(found - wanted) <= 1e-9 * wanted);
        }
}

/* Over many handles, and for one handle over many seeds, the mean of the rounded numbers is the product, and that of the
 * variances the variance. */
static void check_rounding(uint64_t size, bool seeds)
{
    enum { DRAWS = 200000 };
    const double weight = -1 / expm1(-(double)size / 1000), fraction = weight - floor(weight);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const struct mt_sample sample = {.mean = 1000, .seed = seeds ? i : 77};
        const uint64_t n = mt_scaled(mt_sample_weight(&sample, seeds ? 3 : i, size), 1);
        assert_true(n == (uint64_t)weight || n == (uint64_t)weight + 1);
        sum += (double)n;
        squares += mt_scaled_variance(n, 1);
    }
    assert_true(fabs(sum / DRAWS - weight) < 0.005);
    assert_true(fabs(squares / DRAWS - (weight * weight + fraction * (1 - fraction) - weight)) < 0.02 * weight);
}

static void test_scaled(void **state)
{
    (void)state;
    for (uint64_t size = 20; size < 3000; size += size / 2) {
        check_rounding(size, false);
        check_rounding(size, true);
    }
    assert_int_equal(mt_scaled(0, 12345), 12345);
    assert_int_equal(mt_scaled(2, 12345), 24690);
    assert_int_equal(mt_scaled(1e10, UINT64_MAX), UINT64_MAX);
}

/* -- samples by blocks -- */

/* Of the numbers of blocks, every Nth is chosen on average, independently of the number before. */
static void check_choice(uint64_t every, uint64_t seed)
{
    enum { NUMBERS = 400000 };
    const struct mt_sample sample = {.every = every, .seed = seed};
    const double p = 1.0 / (double)every;
    double chosen = 0, pairs = 0;
    bool before = false;
    for (uint64_t i = 0; i < NUMBERS; i++) {
        const bool now = mt_sample_chooses(&sample, i);
        chosen += now;
        pairs += now && before;
        before = now;
    }
    assert_true(fabs(chosen - NUMBERS * p) < 4.5 * sqrt(NUMBERS * p));
    assert_true(fabs(pairs - NUMBERS * p * p) < 4.5 * sqrt(NUMBERS * p * p) + 1);
    assert_true(mt_sample_weight(&sample, 7, 0) == (double)every);
    assert_int_equal(mt_scaled(mt_sample_weight(&sample, 7, 9), 123456789), 123456789 * every);
}

static void test_choice(void **state)
{
    (void)state;
    for (uint64_t every = 2; every < 2000; every *= 3)
        for (uint64_t seed = 1; seed < 8; seed++)
            check_choice(every, seed);
}

/* What the tests compare with the truth. */
enum measure { NEWS, BYTES, RESIZES, FREES, ACCESSES, MEASURES };

enum { HISTORY_BLOCKS = 1500, PLACES = 40 };

static void use(struct mt_writer *w, uint32_t site, uint64_t addr, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++)
        mt_writer_accesses(w, &site, &addr, 1);
}

/* One block's life: at one of a few addresses, it may be resized, and then mostly moves. Adds it to the truth. */
static void live(struct mt_writer *w, uint32_t site, uint64_t i, uint64_t *random, double truth[MEASURES])
{
    uint64_t size = 16 + random_below(random, 200), addr = 0x10000 + 0x1000 * (i % PLACES);
    const uint64_t resizes = random_below(random, 3), uses = random_below(random, 12);
    mt_writer_block_new(w, addr, size, 0, MT_HOW_MALLOC, 0);
    truth[NEWS]++;
    truth[BYTES] += (double)size;
    for (uint64_t k = 0; k < resizes; k++) {
        const uint64_t to = 0x10000 + 0x1000 * (PLACES + random_below(random, 3)) + 0x10 * (k + 1);
        size += 16;
        mt_writer_block_resize(w, addr, to, size, 0, MT_HOW_REALLOC, 0);
        addr = to;
        truth[BYTES] += (double)size;
    }
    use(w, site, addr + 8, uses);
    mt_writer_block_free_as(w, addr, 0, MT_HOW_MALLOC, 0);
    truth[RESIZES] += (double)resizes;
    truth[ACCESSES] += (double)uses;
    truth[FREES]++;
}

/* The sums over one recorded block. */
static void add_event(const struct mt_event *e, uint64_t sums[MEASURES])
{
    sums[NEWS] += e->kind == MT_NEW;
    sums[BYTES] += e->kind == MT_NEW || e->kind == MT_RESIZE ? e->size : 0;
    sums[RESIZES] += e->kind == MT_RESIZE;
    sums[FREES] += e->kind == MT_FREE;
    sums[ACCESSES] += is_access(e);
}

static struct reading record(uint64_t every, uint64_t seed, double truth[MEASURES])
{
    const struct mt_writer_options options = {.sample = {.every = every, .seed = seed}};
    char number[24];
    uint64_t random = 5;
    int fd = memory_file(NULL, 0);
    struct mt_writer *w = mt_writer_new(fd, &options, NULL);
    snprintf(number, sizeof number, "%d", (int)every);
    mt_writer_info(w, MT_INFO_SAMPLE_EVERY, number);
    const uint32_t site = mt_writer_site(w, &(struct mt_site){.ip = 1, .size = 4, .kind = MT_LOAD});
    for (unsigned k = 0; k < MEASURES; k++)
        truth[k] = 0;
    for (uint64_t i = 0; i < HISTORY_BLOCKS; i++)
        live(w, site, i, &random, truth);
    return finish_trace(w, fd);
}

/* Estimates from one sample, and their variances. Each recorded block has all of its events: the New comes first. */
static void estimate(const struct reading *r, uint64_t every, double sums[MEASURES],
                     double variances[MEASURES])
{
    uint64_t(*blocks)[MEASURES] = calloc(HISTORY_BLOCKS, sizeof *blocks);
    for (size_t i = 0; i < r->count; i++) {
        const struct mt_event *e = &r->events[i];
        assert_true(e->kind == MT_NEW || e->kind == MT_FREE || e->kind == MT_RESIZE || is_access(e));
        assert_true(e->handle < HISTORY_BLOCKS);
        assert_true(e->kind == MT_NEW || blocks[e->handle][NEWS] == 1);
        assert_true((e->kind != MT_NEW && e->kind != MT_FREE) || e->weight == (double)every);
        add_event(e, blocks[e->handle]);
    }
    for (unsigned k = 0; k < MEASURES; k++)
        sums[k] = variances[k] = 0;
    for (size_t b = 0; b < HISTORY_BLOCKS && blocks[b][NEWS]; b++) {
        assert_int_equal(blocks[b][FREES], 1);
        for (unsigned k = 0; k < MEASURES; k++) {
            const uint64_t n = mt_scaled((double)every, blocks[b][k]);
            sums[k] += (double)n;
            variances[k] += mt_scaled_variance(n, blocks[b][k]);
        }
    }
    free(blocks);
}

/* Over many seeds, estimates are right on average, and 95% of the intervals of 1.96 standard errors hold the truth. */
static void check_estimates(uint64_t every)
{
    enum { SEEDS = 400 };
    double truth[MEASURES], mean[MEASURES] = {0}, squares[MEASURES] = {0}, held[MEASURES] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double sums[MEASURES], variances[MEASURES];
        struct reading r = record(every, seed, truth);
        estimate(&r, every, sums, variances);
        for (unsigned k = 0; k < MEASURES; k++) {
            mean[k] += sums[k] / SEEDS;
            squares[k] += sums[k] * sums[k] / SEEDS;
            held[k] += fabs(sums[k] - truth[k]) <= 1.96 * sqrt(variances[k]);
        }
        reading_free(&r);
    }
    for (unsigned k = 0; k < MEASURES; k++) {
        const double spread = sqrt(squares[k] - mean[k] * mean[k]);
        printf("1/%d, measure %u: truth %.0f, mean %.1f, standard error of the mean %.1f, held %.3f\n",
               (int)every, k, truth[k], mean[k], spread / sqrt(SEEDS), held[k] / SEEDS);
        assert_true(fabs(mean[k] - truth[k]) <= 3 * spread / sqrt(SEEDS));
        assert_true(held[k] / SEEDS > 0.91 && held[k] / SEEDS < 0.985);
    }
}

static void test_estimates(void **state)
{
    (void)state;
    check_estimates(5);
    check_estimates(20);
}

/* The facts at the end are about all blocks. */
static void test_all_blocks(void **state)
{
    (void)state;
    const struct mt_writer_options options = {.sample = {.every = 1000, .seed = 3}};
    double truth[MEASURES] = {0};
    uint64_t random = 5;
    struct mt_error err;
    int fd = memory_file(NULL, 0);
    struct mt_writer *w = mt_writer_new(fd, &options, NULL);
    for (uint64_t i = 0; i < HISTORY_BLOCKS; i++)
        live(w, 0, i, &random, truth);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, &err), MT_OK);
    struct mt_reader *r = mt_open(memory_path(fd), 0, &err);
    const struct mt_event *events;
    size_t n;
    while (mt_next(r, &events, &n) == MT_MORE)
        continue;
    assert_true(strtod(mt_info(r, "all_news"), NULL) == truth[NEWS]);
    assert_true(strtod(mt_info(r, "all_frees"), NULL) == truth[FREES]);
    assert_true(strtod(mt_info(r, "all_resizes"), NULL) == truth[RESIZES]);
    assert_true(strtod(mt_info(r, "all_allocated"), NULL) == truth[BYTES]);
    assert_true(strtod(mt_info(r, "all_freed"), NULL) == truth[BYTES]);
    mt_close(r);
}

/* Frees that are errors of the program: those of blocks that are left out are not recorded, one of no block is. A block
 * that is left out may be a container, and its free is no error. */
static void test_errors(void **state)
{
    (void)state;
    const struct mt_writer_options options = {.sample = {.every = 1000000, .seed = 3}};
    int fd = memory_file(NULL, 0);
    struct mt_writer *w = mt_writer_new(fd, &options, NULL);
    const uint32_t pool = mt_writer_heap(w, &(struct mt_heap){.id = 1, .kind = MT_HEAP_CUSTOM});
    mt_writer_block_new(w, 0x1000, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_free_as(w, 0x1010, 0, MT_HOW_MALLOC, 0);  /* inside */
    mt_writer_block_free_as(w, 0x1000, 0, MT_HOW_CXX_NEW, 0); /* mismatch */
    mt_writer_block_free_as(w, 0x1000, 0, MT_HOW_CXX_NEW, 0); /* double */
    mt_writer_block_new(w, 0x2000, 4096, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, 0x2100, 64, pool, MT_HOW_CUSTOM, 0);
    mt_writer_block_free_as(w, 0x2000, 0, MT_HOW_MALLOC, 0); /* the container */
    mt_writer_block_free(w, 0x2100, pool, 0);                /* ended with its container */
    mt_writer_block_free_as(w, 0x9000, 0, MT_HOW_MALLOC, 0); /* of no block */
    struct reading r = finish_trace(w, fd);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.events[0].kind, MT_BADFREE);
    assert_int_equal(r.events[0].addr, 0x9000);
    reading_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight),    cmocka_unit_test(test_scaled),     cmocka_unit_test(test_choice),
        cmocka_unit_test(test_estimates), cmocka_unit_test(test_all_blocks), cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
