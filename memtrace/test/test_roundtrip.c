/* test_roundtrip.c - random histories through writer and reader, compared with a slow model of both.
 *
 * Heaps are not nested here; test_containers.c tests that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/roundtrip_model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SITES = 20, STACKS = 5, HEAPS = 3, BATCH = 64 };

/* A history, passed to the writer and to the model. */
struct history {
    struct mt_writer *w;
    uint64_t seed;
    struct model m;
};

static uint64_t some_addr(struct history *h)
{
    if (h->m.used && random_below(&h->seed, 4)) {
        const struct mt_event *b = &h->m.live[random_below(&h->seed, h->m.used)];
        return b->addr + (random_below(&h->seed, 3) ? 0 : random_below(&h->seed, b->size + 20));
    }
    return random_below(&h->seed, 1 << 16);
}

static void do_new(struct history *h)
{
    uint64_t addr = random_below(&h->seed, 1 << 16),
             size = random_next(&h->seed) >> (53 + random_below(&h->seed, 11));
    uint32_t heap = (uint32_t)random_below(&h->seed, HEAPS), stack = (uint32_t)random_below(&h->seed, STACKS);
    uint8_t how = (uint8_t)random_below(&h->seed, MT_HOWS);
    uint32_t slot = UINT32_MAX;
    if (!model_overlapped(&h->m, addr, size, UINT32_MAX, &slot))
        return;
    if (slot != UINT32_MAX)
        model_free(&h->m, slot, stack, true);
    model_new(&h->m, addr, size, heap, how, stack);
    mt_writer_block_new(h->w, addr, size, heap, how, stack);
}

static void do_free(struct history *h)
{
    uint64_t addr = some_addr(h);
    uint32_t heap = (uint32_t)random_below(&h->seed, HEAPS), stack = (uint32_t)random_below(&h->seed, STACKS);
    uint32_t slot = model_slot_at(&h->m, addr, heap);
    enum mt_how how = (enum mt_how)random_below(&h->seed, MT_HOWS + 1);
    if (slot != UINT32_MAX) {
        model_mismatch(&h->m, slot, how, stack);
        model_free(&h->m, slot, stack, false);
    } else {
        model_bad_free(&h->m, addr, heap, stack);
    }
    if (how == MT_HOWS)
        mt_writer_block_free(h->w, addr, heap, stack);
    else
        mt_writer_block_free_as(h->w, addr, heap, how, stack);
}

static void do_resize(struct history *h)
{
    uint64_t old = some_addr(h), addr = random_below(&h->seed, 3) ? old : random_below(&h->seed, 1 << 16);
    uint64_t size = random_below(&h->seed, 300);
    uint32_t heap = (uint32_t)random_below(&h->seed, HEAPS), stack = (uint32_t)random_below(&h->seed, STACKS);
    uint32_t slot = model_slot_at(&h->m, old, heap), other = UINT32_MAX;
    if (!model_overlapped(&h->m, addr, size, slot, &other))
        return;
    if (slot == UINT32_MAX)
        model_bad_free(&h->m, old, heap, stack);
    else
        model_mismatch(&h->m, slot, MT_HOW_REALLOC, stack);
    if (other != UINT32_MAX)
        model_free(&h->m, other, stack, true);
    if (slot == UINT32_MAX)
        model_new(&h->m, addr, size, heap, MT_HOW_REALLOC, stack);
    else
        model_resize(&h->m, slot, addr, size, stack);
    mt_writer_block_resize(h->w, old, addr, size, heap, MT_HOW_REALLOC, stack);
}

static uint8_t site_kind(uint32_t site)
{
    return MT_LOAD + site % 3;
}

static void do_touch(struct history *h)
{
    enum mt_kind kind = MT_LOAD + (enum mt_kind)random_below(&h->seed, 3);
    uint64_t addr = some_addr(h), size = random_below(&h->seed, 5) ? random_below(&h->seed, 3000) : 0;
    model_touch(&h->m, kind, addr, size);
    mt_writer_touch(h->w, kind, addr, size);
}

static void do_accesses(struct history *h)
{
    uint32_t sites[BATCH];
    uint64_t addrs[BATCH], base = some_addr(h), stride = random_below(&h->seed, 3) * 8;
    size_t n = random_below(&h->seed, BATCH + 1);
    bool wild = random_below(&h->seed, 2);
    for (size_t i = 0; i < n; i++) {
        sites[i] = 1 + (uint32_t)(wild ? random_below(&h->seed, SITES) : i % 3);
        addrs[i] = wild ? some_addr(h) : base + i / 3 * stride;
        model_access(&h->m, site_kind(sites[i]), sites[i], sites[i], addrs[i]);
    }
    mt_writer_accesses(h->w, sites, addrs, n);
}

static void do_other(struct history *h)
{
    switch (random_below(&h->seed, 5)) {
    case 0:
        h->m.thread = (uint16_t)random_below(&h->seed, 3);
        mt_writer_thread(h->w, h->m.thread);
        break;
    case 1:
        model_expect(&h->m, MT_MARK)->ref = 1;
        mt_writer_mark(h->w, 1);
        break;
    case 2:
        model_expect(&h->m, MT_LOST)->size = 77;
        mt_writer_lost(h->w, 77, 0);
        break;
    case 3:
        mt_writer_flush(h->w);
        break;
    default:
        h->m.time += random_below(&h->seed, 1000);
        mt_writer_time(h->w, h->m.time);
    }
}

static void step(struct history *h)
{
    switch (random_below(&h->seed, 8)) {
    case 0:
    case 1:
        do_new(h);
        break;
    case 2:
        do_free(h);
        break;
    case 3:
        do_resize(h);
        break;
    case 4:
        if (random_below(&h->seed, 2))
            do_other(h);
        else
            do_touch(h);
        break;
    default:
        do_accesses(h);
    }
}

static void define(struct mt_writer *w)
{
    assert_int_equal(mt_writer_string(w, "one", 3), 1);
    assert_int_equal(mt_writer_string(w, "one", 3), 1);
    assert_int_equal(mt_writer_string(w, "", 0), 0);
    for (uint32_t i = 1; i <= SITES; i++)
        assert_int_equal(mt_writer_site(w, &(struct mt_site){.ip = 4 * i, .size = i, .kind = site_kind(i)}),
                         i);
    for (uint32_t i = 1; i < STACKS; i++) {
        assert_int_equal(mt_writer_frame(w, &(struct mt_frame){.ip = i, .function = 1}), i);
        assert_int_equal(mt_writer_stack(w, i - 1, i), i);
        assert_int_equal(mt_writer_stack(w, i - 1, i), i);
    }
    for (uint32_t i = 1; i < HEAPS; i++)
        assert_int_equal(mt_writer_heap(w, &(struct mt_heap){.id = i, .kind = MT_HEAP_MMAP}), i);
}

static void check(const struct model *m, const struct reading *got)
{
    assert_int_equal(got->result, MT_END);
    assert_int_equal(got->count, m->count);
    uint64_t time = 0;
    for (size_t i = 0; i < m->count; i++) {
        struct mt_event ev = got->events[i];
        assert_true(ev.time >= time && ev.time <= m->expected[i].time);
        time = ev.time;
        if (ev.kind >= MT_LOAD && ev.kind <= MT_MODIFY)
            ev.time = m->expected[i].time;
        assert_true(same_event(&ev, &m->expected[i]));
    }
    assert_int_equal(got->stats.totals.foreign, m->foreign);
    assert_int_equal(got->stats.totals.freed, m->freed);
    assert_int_equal(got->stats.handles, m->handles);
    assert_int_equal(got->stats.live_slots, m->used - m->free_count);
    assert_int_equal(got->stats.ending, MT_ENDING_KILLED);
}

/* Without MT_OPEN_FREED the same events are delivered, except accesses to freed memory. */
static void check_hidden(const struct reading *all, const struct bytes *file)
{
    struct reading got = read_bytes(file->data, file->size, 0);
    size_t n = 0;
    for (size_t i = 0; i < all->count; i++)
        if (!(all->events[i].kind >= MT_LOAD && all->events[i].kind <= MT_MODIFY && all->events[i].freed))
            assert_true(n < got.count && same_event(&got.events[n++], &all->events[i]));
    assert_int_equal(n, got.count);
    assert_int_equal(got.result, MT_END);
    reading_free(&got);
}

static void run(uint64_t seed, uint32_t chunk_events, int steps)
{
    struct history *h = calloc(1, sizeof *h);
    int fd = memory_file("", 0);
    struct mt_error err = {0};
    h->seed = seed;
    h->m.thread = 1;
    h->w = mt_writer_new(
        fd, &(struct mt_writer_options){.chunk_events = chunk_events, .checkpoint_interval = seed % 3}, &err);
    assert_non_null(h->w);
    define(h->w);
    for (int i = 0; i < steps; i++)
        step(h);
    assert_int_equal(mt_writer_finish(h->w, MT_ENDING_KILLED, &err), MT_OK);
    struct bytes file = memory_bytes(fd);
    struct reading got = read_bytes(file.data, file.size, MT_OPEN_FREED);
    check(&h->m, &got);
    check_hidden(&got, &file);
    reading_free(&got);
    free(file.data);
    free(h->m.expected);
    free(h);
    close(fd);
}

static void test_one_chunk(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        run(seed, 0, 600);
}

static void test_small_chunks(void **state)
{
    for (uint64_t seed = 100; seed <= 110; seed++)
        run(seed, 1 + (uint32_t)seed % 7, 300);
    run(200, 97, 3000);
}

static void test_many_steps(void **state)
{
    run(300, 5000, 8000);
}

static void test_empty(void **state)
{
    run(1, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_empty), cmocka_unit_test(test_one_chunk),
                                       cmocka_unit_test(test_small_chunks),
                                       cmocka_unit_test(test_many_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
