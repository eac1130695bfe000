/* test_jeff.c - Jeff: every byte and every link, before and after each compaction.
 *
 * Random operations on blocks, each filled with a pattern of its own. After each compaction, and sometimes between,
 * the chain of blocks must cover the heap without holes, the slots must have exactly the free blocks, locked blocks
 * must not have moved, and every byte must be unchanged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/allocators/jeff.h"
#include "drivers/run/engine.h"
#include "drivers/test/test_units.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 300, HEAP = 96 * 1024, STEPS = 40000 };

struct block_made {
    struct jeff_block *handle;
    size_t size;
    unsigned char pattern;
    char *fixed; /* its address while it is locked, otherwise NULL */
};

struct world {
    struct jeff jeff;
    struct block_made blocks[BLOCKS];
    uint64_t random;
    _Alignas(16) char heap[HEAP];
};

static uint64_t below(struct world *w, uint64_t n)
{
    return engine_random(&w->random) % n;
}

static void check_bytes(const struct block_made *b)
{
    assert_true(!b->fixed || b->fixed == b->handle->memory);
    assert_true(jeff_usable(b->handle) >= b->size);
    for (size_t i = 0; i < b->size; i++)
        if ((unsigned char)b->handle->memory[i] != b->pattern)
            fail_msg("byte %zu of a block of %zu bytes was changed", i, b->size);
}

/* The blocks by address cover everything from the base to the top. */
static void check_chain(const struct jeff *j)
{
    const char *at = j->base;
    size_t free_bytes = 0, free_blocks = 0;
    uint32_t last = 0;
    for (uint32_t n = j->lowest; n; last = n, n = jeff_header(j, n)->above) {
        const struct jeff_block *b = jeff_header(j, n);
        assert_ptr_equal(b->memory, at);
        assert_int_equal(b->below, last);
        at += jeff_usable(b);
        free_bytes += b->size & JEFF_USED ? 0 : jeff_usable(b);
        free_blocks += !(b->size & JEFF_USED);
    }
    assert_int_equal(last, j->highest);
    assert_ptr_equal(at, j->top);
    assert_int_equal(free_bytes, j->free_bytes);
    assert_int_equal(free_blocks, j->free_blocks);
}

static void check(struct world *w)
{
    check_chain(&w->jeff);
    for (int i = 0; i < BLOCKS; i++)
        if (w->blocks[i].handle)
            check_bytes(&w->blocks[i]);
}

static bool make(struct world *w, struct block_made *b)
{
    size_t size = 1 + below(w, below(w, 8) ? 200 : 3000);
    struct jeff_block *handle = jeff_malloc(&w->jeff, size);
    if (!handle)
        return false;
    *b = (struct block_made){
        .handle = handle, .size = size, .pattern = (unsigned char)engine_random(&w->random)};
    memset(handle->memory, b->pattern, size);
    return true;
}

static void resize(struct world *w, struct block_made *b)
{
    size_t size = 1 + below(w, 600), kept = size < b->size ? size : b->size;
    struct jeff_block *handle = b->fixed ? NULL : jeff_realloc(&w->jeff, b->handle, size);
    if (!handle)
        return;
    b->handle = handle;
    b->size = kept;
    check_bytes(b);
    b->size = size;
    memset(handle->memory, b->pattern, size);
}

static void work_on(struct world *w, struct block_made *b)
{
    switch (below(w, 5)) {
    case 0:
        b->fixed = b->fixed ? b->fixed : jeff_lock(&w->jeff, b->handle);
        break;
    case 1:
        jeff_unlock(&w->jeff, b->handle);
        b->fixed = NULL;
        break;
    case 2:
        resize(w, b);
        break;
    default:
        check_bytes(b);
        jeff_free(&w->jeff, b->handle);
        b->handle = NULL;
    }
}

static void compact(struct world *w, unsigned milliseconds)
{
    uint64_t before = w->jeff.compactions;
    check(w);
    assert_true(jeff_compact(&w->jeff, milliseconds) || milliseconds);
    assert_int_equal(w->jeff.compactions, before + 1);
    check(w);
}

static void play(bool compacts, bool coalesces)
{
    struct world *w = aligned_alloc(16, sizeof *w);
    memset(w, 0, sizeof *w);
    w->random = 7;
    assert_true(jeff_init(&w->jeff, w->heap, HEAP, coalesces));
    for (int i = 0; i < STEPS; i++) {
        struct block_made *b = &w->blocks[below(w, BLOCKS)];
        if (b->handle)
            work_on(w, b);
        else if (!make(w, b) && compacts)
            compact(w, (unsigned)below(w, 2));
        if (i % 1000 == 0)
            check(w);
    }
    check(w);
    assert_true(!compacts || w->jeff.moved > 0);
    for (int i = 0; i < BLOCKS; i++)
        if (w->blocks[i].handle)
            jeff_free(&w->jeff, w->blocks[i].handle);
    assert_ptr_equal(w->jeff.top, w->jeff.base);
    assert_int_equal(w->jeff.locked_blocks, 0);
    free(w);
}

static void test_plain(void **state)
{
    play(false, false);
}

static void test_compacting(void **state)
{
    play(true, false);
}

static void test_coalescing(void **state)
{
    play(true, true);
}

/* Compaction joins all free memory, except between locked blocks; the largest block is as reported. */
static void test_largest(void **state)
{
    _Alignas(16) static char heap[4096];
    struct jeff j;
    struct jeff_block *b[10];
    assert_true(jeff_init(&j, heap, sizeof heap, false));
    for (int i = 0; i < 10; i++)
        assert_non_null(b[i] = jeff_malloc(&j, 320));
    for (int i = 0; i < 10; i += 2)
        jeff_free(&j, b[i]);
    assert_int_equal(jeff_largest(&j), (jeff_unused_bytes(&j) - sizeof *b[0]) / 16 * 16);
    jeff_lock(&j, b[5]);
    assert_true(jeff_compact(&j, 0));
    assert_ptr_equal(b[1]->memory, heap);
    assert_ptr_equal(b[3]->memory, heap + 320);
    assert_ptr_equal(b[5]->memory, heap + 5 * 320);
    assert_ptr_equal(b[9]->memory, heap + 7 * 320);
    assert_int_equal(j.free_blocks, 1);
    size_t largest = jeff_largest(&j);
    assert_int_equal(largest, jeff_unused_bytes(&j) / 16 * 16); /* there is a spare header */
    assert_null(jeff_malloc(&j, largest + 1));
    assert_ptr_equal(jeff_malloc(&j, largest)->memory, heap + 8 * 320);
    assert_int_equal(jeff_largest(&j), 3 * 320);
    assert_null(jeff_malloc(&j, 3 * 320 + 1));
    assert_ptr_equal(jeff_malloc(&j, 3 * 320)->memory, heap + 2 * 320);
    assert_null(jeff_malloc(&j, SIZE_MAX));
}

static void test_weak_lock(void **state)
{
    _Alignas(16) static char heap[1024];
    struct jeff j;
    assert_true(jeff_init(&j, heap, sizeof heap, false));
    struct jeff_block *a = jeff_malloc(&j, 64), *b = jeff_malloc(&j, 64);
    assert_ptr_equal(jeff_weak_lock(b), heap + 64);
    assert_true(jeff_weak_unlock(b));
    jeff_weak_lock(b);
    jeff_free(&j, a);
    jeff_compact(&j, 0);
    assert_false(jeff_weak_unlock(b));
    assert_ptr_equal(jeff_weak_lock(b), heap);
}

/* A pass with a time limit ends early and reports that; the next ones continue to the end. */
static void test_time_limit(void **state)
{
    enum { SIZE = 256 << 20, PIECE = 4096, COUNT = SIZE / PIECE / 2 };
    char *heap = aligned_alloc(16, SIZE);
    struct jeff_block **b = calloc(COUNT, sizeof *b);
    struct jeff j;
    unsigned limit = 1;
    assert_true(jeff_init(&j, heap, SIZE, false));
    for (int i = 0; i < COUNT; i++)
        memset((b[i] = jeff_malloc(&j, PIECE))->memory, i % 251, PIECE);
    jeff_free(&j, b[0]);
    /* Each pass begins at the bottom: in 1 ms, a slow machine might only reach what has moved already. */
    while (!jeff_compact(&j, limit))
        limit *= 2;
    assert_true(limit > 1);
    for (int i = 1; i < COUNT; i++) {
        assert_int_equal((unsigned char)b[i]->memory[0], i % 251);
        assert_int_equal((unsigned char)b[i]->memory[PIECE - 1], i % 251);
    }
    assert_ptr_equal(j.top, heap + (size_t)(COUNT - 1) * PIECE);
    free(b);
    free(heap);
}

int run_jeff_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),   cmocka_unit_test(test_compacting), cmocka_unit_test(test_coalescing),
        cmocka_unit_test(test_largest), cmocka_unit_test(test_weak_lock),  cmocka_unit_test(test_time_limit),
    };
    return cmocka_run_group_tests_name("jeff", tests, NULL, NULL);
}
