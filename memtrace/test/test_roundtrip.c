/* test_roundtrip.c - random histories through writer and reader, against a slow model of both.
 *
 * No heap here lies in another: test_arena.c has those.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SITES = 20, STACKS = 5, HEAPS = 3, MAX_LIVE = 4096, MAX_DEAD = 65536, BATCH = 64, PARTS = 4096 };

/* The slow model: a list of live blocks, and the events that must come out. */
struct model {
    struct mt_writer *w;
    uint64_t seed;
    struct mt_event live[MAX_LIVE]; /* NEW events of live blocks by slot; kind MT_KINDS = free slot */
    uint32_t free_slots[MAX_LIVE];
    uint32_t used, free_count;
    struct mt_event dead[MAX_DEAD]; /* addr, size (of what is left), handle, heap, old_addr (of the whole) */
    uint32_t dead_count;
    uint64_t handles, time, foreign, freed;
    uint16_t thread;
    struct mt_event *expected;
    size_t count, capacity;
};

static struct mt_event *expect(struct model *m, enum mt_kind kind)
{
    if (m->count == m->capacity) {
        m->capacity = m->capacity * 2 + 256;
        m->expected = realloc(m->expected, m->capacity * sizeof *m->expected);
        assert_non_null(m->expected);
    }
    struct mt_event *ev = &m->expected[m->count++];
    *ev = (struct mt_event){.kind = kind, .thread = m->thread, .time = m->time};
    return ev;
}

static uint64_t last_of(uint64_t addr, uint64_t size)
{
    return addr + (size ? size - 1 : 0);
}

static bool meets(const struct mt_event *b, uint64_t addr, uint64_t size)
{
    return b->addr <= last_of(addr, size) && last_of(b->addr, b->size) >= addr;
}

static void bury(struct model *m, const struct mt_event *b)
{
    assert_true(m->dead_count < MAX_DEAD);
    m->dead[m->dead_count] = *b;
    m->dead[m->dead_count++].old_addr = b->addr;
}

/* Keep the bytes [first, end) of a dead block, unless they are few. */
static void keep(struct model *m, const struct mt_event *b, uint64_t first, uint64_t end)
{
    if (end < first + 32)
        return;
    assert_true(m->dead_count < MAX_DEAD);
    m->dead[m->dead_count] = *b;
    m->dead[m->dead_count].addr = first;
    m->dead[m->dead_count++].size = end - first;
}

/* A block comes to lie there: what is dead is left before it and from the next multiple of 16 behind it. */
static void cover(struct model *m, uint64_t addr, uint64_t size)
{
    for (uint32_t i = m->dead_count; i-- > 0;) {
        struct mt_event b = m->dead[i];
        if (!meets(&b, addr, size))
            continue;
        m->dead[i] = m->dead[--m->dead_count];
        keep(m, &b, b.addr, addr);
        keep(m, &b, (last_of(addr, size) | 15) + 1, b.addr + b.size);
    }
}

static void model_free(struct model *m, uint32_t slot, uint32_t stack, bool implied)
{
    struct mt_event *ev = expect(m, MT_FREE);
    ev->addr = m->live[slot].addr;
    ev->size = m->live[slot].size;
    ev->handle = m->live[slot].handle;
    ev->heap = m->live[slot].heap;
    ev->slot = slot;
    ev->ref = stack;
    ev->implied = implied;
    bury(m, &m->live[slot]);
    m->live[slot].kind = MT_KINDS;
    m->free_slots[m->free_count++] = slot;
}

/* Overlapped blocks are freed in an order the writer chooses, so the histories here overlap one at most. */
static bool overlapped(const struct model *m, uint64_t addr, uint64_t size, uint32_t except, uint32_t *slot)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < m->used; i++)
        if (i != except && m->live[i].kind != MT_KINDS && meets(&m->live[i], addr, size)) {
            *slot = i;
            n++;
        }
    return n <= 1;
}

static void model_new(struct model *m, uint64_t addr, uint64_t size, uint32_t heap, uint8_t how,
                      uint32_t stack)
{
    uint32_t slot = m->free_count ? m->free_slots[--m->free_count] : m->used++;
    cover(m, addr, size);
    struct mt_event *ev = expect(m, MT_NEW);
    ev->addr = addr;
    ev->size = size;
    ev->handle = m->handles++;
    ev->heap = heap;
    ev->slot = slot;
    ev->how = how;
    ev->ref = stack;
    m->live[slot] = *ev;
}

static uint64_t some_addr(struct model *m)
{
    if (m->used && random_below(&m->seed, 4)) {
        const struct mt_event *b = &m->live[random_below(&m->seed, m->used)];
        return b->addr + (random_below(&m->seed, 3) ? 0 : random_below(&m->seed, b->size + 20));
    }
    return random_below(&m->seed, 1 << 16);
}

static void do_new(struct model *m)
{
    uint64_t addr = random_below(&m->seed, 1 << 16),
             size = random_next(&m->seed) >> (53 + random_below(&m->seed, 11));
    uint32_t heap = (uint32_t)random_below(&m->seed, HEAPS), stack = (uint32_t)random_below(&m->seed, STACKS);
    uint8_t how = (uint8_t)random_below(&m->seed, MT_HOWS);
    uint32_t slot = UINT32_MAX;
    if (!overlapped(m, addr, size, UINT32_MAX, &slot))
        return;
    if (slot != UINT32_MAX)
        model_free(m, slot, stack, true);
    model_new(m, addr, size, heap, how, stack);
    mt_writer_block_new(m->w, addr, size, heap, how, stack);
}

/* The slot of the block of `heap` that begins at addr, or UINT32_MAX. */
static uint32_t slot_at(const struct model *m, uint64_t addr, uint32_t heap)
{
    for (uint32_t i = 0; i < m->used; i++)
        if (m->live[i].kind != MT_KINDS && m->live[i].addr == addr && m->live[i].heap == heap)
            return i;
    return UINT32_MAX;
}

/* What a bad free is of: 1 found, and *concerned is set. */
static bool begins(const struct mt_event *blocks, uint32_t n, uint64_t addr,
                   const struct mt_event **concerned)
{
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].kind != MT_KINDS && blocks[i].addr == addr) {
            *concerned = &blocks[i];
            return true;
        }
    return false;
}

static bool contains(const struct mt_event *blocks, uint32_t n, uint64_t addr,
                     const struct mt_event **concerned)
{
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].kind != MT_KINDS && addr - blocks[i].addr < blocks[i].size) {
            *concerned = &blocks[i];
            return true;
        }
    return false;
}

/* What is left of a dead block does not begin where the block did if another has taken its beginning. */
static bool begins_dead(const struct model *m, uint64_t addr, const struct mt_event **concerned)
{
    const struct mt_event *b;
    bool found = begins(m->dead, m->dead_count, addr, &b) && b->old_addr == addr;
    if (found)
        *concerned = b;
    return found;
}

static void expect_bad(struct model *m, enum mt_badfree reason, const struct mt_event *concerned,
                       uint64_t addr, uint32_t heap, uint32_t stack)
{
    struct mt_event *ev = expect(m, MT_BADFREE);
    ev->addr = addr;
    ev->heap = heap;
    ev->ref = stack;
    ev->how = reason;
    ev->handle = concerned ? concerned->handle : MT_NO_HANDLE;
    ev->offset = concerned ? addr - concerned->addr : 0;
}

static void expect_bad_free(struct model *m, uint64_t addr, uint32_t heap, uint32_t stack)
{
    const struct mt_event *b = NULL;
    enum mt_badfree reason = begins(m->live, m->used, addr, &b)     ? MT_BADFREE_HEAP
                             : contains(m->live, m->used, addr, &b) ? MT_BADFREE_INSIDE
                             : begins_dead(m, addr, &b)             ? MT_BADFREE_DOUBLE
                                                                    : MT_BADFREE_INVALID;
    expect_bad(m, reason, b, addr, heap, stack);
}

/* Ways 0 to 3 belong together. */
static void expect_mismatch(struct model *m, uint32_t slot, enum mt_how how, uint32_t stack)
{
    const struct mt_event *b = &m->live[slot];
    if (how != MT_HOWS && how != b->how && (how > MT_HOW_MEMALIGN || b->how > MT_HOW_MEMALIGN))
        expect_bad(m, MT_BADFREE_MISMATCH, b, b->addr, b->heap, stack);
}

static void do_free(struct model *m)
{
    uint64_t addr = some_addr(m);
    uint32_t heap = (uint32_t)random_below(&m->seed, HEAPS), stack = (uint32_t)random_below(&m->seed, STACKS);
    uint32_t slot = slot_at(m, addr, heap);
    enum mt_how how = (enum mt_how)random_below(&m->seed, MT_HOWS + 1);
    if (slot != UINT32_MAX) {
        expect_mismatch(m, slot, how, stack);
        model_free(m, slot, stack, false);
    } else {
        expect_bad_free(m, addr, heap, stack);
    }
    if (how == MT_HOWS)
        mt_writer_block_free(m->w, addr, heap, stack);
    else
        mt_writer_block_free_as(m->w, addr, heap, how, stack);
}

static void model_resize(struct model *m, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack)
{
    struct mt_event old = m->live[slot], *ev = expect(m, MT_RESIZE);
    ev->addr = addr;
    ev->size = size;
    ev->handle = old.handle;
    ev->old_addr = old.addr;
    ev->old_size = old.size;
    ev->ref = stack;
    ev->heap = old.heap;
    ev->slot = slot;
    cover(m, addr, size);
    if (!meets(&old, addr, size))
        bury(m, &old);
    m->live[slot].addr = addr;
    m->live[slot].size = size;
    m->live[slot].ref = stack;
}

static void do_resize(struct model *m)
{
    uint64_t old = some_addr(m), addr = random_below(&m->seed, 3) ? old : random_below(&m->seed, 1 << 16);
    uint64_t size = random_below(&m->seed, 300);
    uint32_t heap = (uint32_t)random_below(&m->seed, HEAPS), stack = (uint32_t)random_below(&m->seed, STACKS);
    uint32_t slot = slot_at(m, old, heap), other = UINT32_MAX;
    if (!overlapped(m, addr, size, slot, &other))
        return;
    if (slot == UINT32_MAX)
        expect_bad_free(m, old, heap, stack);
    else
        expect_mismatch(m, slot, MT_HOW_REALLOC, stack);
    if (other != UINT32_MAX)
        model_free(m, other, stack, true);
    if (slot == UINT32_MAX)
        model_new(m, addr, size, heap, MT_HOW_REALLOC, stack);
    else
        model_resize(m, slot, addr, size, stack);
    mt_writer_block_resize(m->w, old, addr, size, heap, MT_HOW_REALLOC, stack);
}

static uint8_t site_kind(uint32_t site)
{
    return MT_LOAD + site % 3;
}

/* Times of accesses are those of the last rare event or chunk start: not compared (see check). */
static struct mt_event *expect_part(struct model *m, enum mt_kind kind, const struct mt_event *b,
                                    uint64_t addr, uint64_t size)
{
    struct mt_event *ev = expect(m, kind);
    ev->addr = addr;
    ev->size = size;
    ev->handle = b->handle;
    ev->heap = b->heap;
    ev->slot = b->slot;
    ev->freed = b >= m->dead && b < m->dead + MAX_DEAD;
    ev->offset = addr - (ev->freed ? b->old_addr : b->addr);
    m->freed += ev->freed;
    return ev;
}

static void expect_access(struct model *m, uint32_t site, uint64_t addr)
{
    const struct mt_event *b = NULL;
    if (!contains(m->live, m->used, addr, &b) && !contains(m->dead, m->dead_count, addr, &b)) {
        m->foreign++;
        return;
    }
    struct mt_event *ev = expect_part(m, site_kind(site), b, addr, site);
    ev->ref = site;
    ev->beyond = !ev->freed && ev->offset + site > b->size;
}

/* Collect the blocks that have bytes in a range, by address. */
static size_t add_parts(const struct mt_event **parts, size_t count, const struct mt_event *blocks,
                        uint32_t n, uint64_t addr, uint64_t size)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t at = count;
        if (blocks[i].kind == MT_KINDS || blocks[i].size == 0 || !meets(&blocks[i], addr, size))
            continue;
        for (; at > 0 && parts[at - 1]->addr > blocks[i].addr; at--)
            parts[at] = parts[at - 1];
        parts[at] = &blocks[i];
        count++;
        assert_true(count < PARTS);
    }
    return count;
}

static void do_touch(struct model *m)
{
    const struct mt_event *parts[PARTS];
    enum mt_kind kind = MT_LOAD + (enum mt_kind)random_below(&m->seed, 3);
    uint64_t addr = some_addr(m), size = random_below(&m->seed, 5) ? random_below(&m->seed, 3000) : 0;
    size_t n = size ? add_parts(parts, 0, m->live, m->used, addr, size) : 0;
    n = size ? add_parts(parts, n, m->dead, m->dead_count, addr, size) : 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t first = parts[i]->addr > addr ? parts[i]->addr : addr, last = last_of(addr, size);
        uint64_t end = last_of(parts[i]->addr, parts[i]->size);
        expect_part(m, kind, parts[i], first, (end < last ? end : last) - first + 1)->kernel = 1;
    }
    m->foreign += size && n == 0;
    mt_writer_touch(m->w, kind, addr, size);
}

static void do_accesses(struct model *m)
{
    uint32_t sites[BATCH];
    uint64_t addrs[BATCH], base = some_addr(m), stride = random_below(&m->seed, 3) * 8;
    size_t n = random_below(&m->seed, BATCH + 1);
    bool wild = random_below(&m->seed, 2);
    for (size_t i = 0; i < n; i++) {
        sites[i] = 1 + (uint32_t)(wild ? random_below(&m->seed, SITES) : i % 3);
        addrs[i] = wild ? some_addr(m) : base + i / 3 * stride;
        expect_access(m, sites[i], addrs[i]);
    }
    mt_writer_accesses(m->w, sites, addrs, n);
}

static void do_other(struct model *m)
{
    switch (random_below(&m->seed, 5)) {
    case 0:
        m->thread = (uint16_t)random_below(&m->seed, 3);
        mt_writer_thread(m->w, m->thread);
        break;
    case 1:
        expect(m, MT_MARK)->ref = 1;
        mt_writer_mark(m->w, 1);
        break;
    case 2:
        expect(m, MT_LOST)->size = 77;
        mt_writer_lost(m->w, 77, 0);
        break;
    case 3:
        mt_writer_flush(m->w);
        break;
    default:
        m->time += random_below(&m->seed, 1000);
        mt_writer_time(m->w, m->time);
    }
}

static void step(struct model *m)
{
    switch (random_below(&m->seed, 8)) {
    case 0:
    case 1:
        do_new(m);
        break;
    case 2:
        do_free(m);
        break;
    case 3:
        do_resize(m);
        break;
    case 4:
        if (random_below(&m->seed, 2))
            do_other(m);
        else
            do_touch(m);
        break;
    default:
        do_accesses(m);
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

/* Without MT_OPEN_FREED the same events come, less those to freed memory. */
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
    struct model *m = calloc(1, sizeof *m);
    int fd = memory_file("", 0);
    struct mt_error err = {0};
    m->seed = seed;
    m->thread = 1;
    m->w = mt_writer_new(
        fd, &(struct mt_writer_options){.chunk_events = chunk_events, .live_chunks = seed % 3}, &err);
    assert_non_null(m->w);
    define(m->w);
    for (int i = 0; i < steps; i++)
        step(m);
    assert_int_equal(mt_writer_finish(m->w, MT_ENDING_KILLED, &err), MT_OK);
    struct bytes file = memory_bytes(fd);
    struct reading got = read_bytes(file.data, file.size, MT_OPEN_FREED);
    check(m, &got);
    check_hidden(&got, &file);
    reading_free(&got);
    free(file.data);
    free(m->expected);
    free(m);
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
