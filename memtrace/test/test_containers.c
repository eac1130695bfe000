/* test_containers.c - nested heaps and the list of their containers, memory that is unmapped by ranges, and files of
 * limited size.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MALLOC, MMAP, POOL, INNER, HEAPS };

struct made {
    int fd;
    struct mt_writer *w;
};

static struct made begin(const struct mt_writer_options *options)
{
    static const uint8_t kinds[HEAPS] = {
        [MMAP] = MT_HEAP_MMAP, [POOL] = MT_HEAP_CUSTOM, [INNER] = MT_HEAP_CUSTOM};
    struct made m = {.fd = memory_file(NULL, 0)};
    m.w = mt_writer_new(m.fd, options, NULL);
    assert_non_null(m.w);
    for (uint32_t i = 1; i < HEAPS; i++)
        assert_int_equal(mt_writer_heap(m.w, &(struct mt_heap){.id = i, .kind = kinds[i]}), i);
    return m;
}

static struct reading end(struct made *m)
{
    assert_int_equal(mt_writer_finish(m->w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(m->fd);
    struct reading got = read_bytes(file.data, file.size, MT_OPEN_DEFAULT);
    assert_int_equal(got.result, MT_END);
    free(file.data);
    close(m->fd);
    return got;
}

static void block(struct made *m, uint32_t heap, uint64_t addr, uint64_t size)
{
    mt_writer_block_new(m->w, addr, size, heap, MT_HOW_CUSTOM, 0);
}

static void check(const struct reading *got, size_t i, enum mt_kind kind, uint64_t addr, uint64_t size,
                  unsigned implied)
{
    assert_true(i < got->count);
    const struct mt_event *e = &got->events[i];
    assert_int_equal(e->kind, kind);
    assert_int_equal(e->addr, addr);
    assert_int_equal(e->size, size);
    if (kind == MT_FREE)
        assert_int_equal(e->implied, implied);
}

static void test_superblock(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    block(&m, MALLOC, 0x1000, 0x1000);
    block(&m, POOL, 0x1000, 0x800); /* the first block of the pool begins where the superblock does */
    block(&m, INNER, 0x1100, 0x40); /* and is a container itself */
    mt_writer_block_free(m.w, 0x1100, INNER, 0);
    block(&m, INNER, 0x1200, 0x40);
    mt_writer_block_free(m.w, 0x1000, MALLOC, 0);
    mt_writer_block_free(m.w, 0x1000, MALLOC, 0);
    struct mt_totals totals;
    mt_writer_totals(m.w, &totals);
    assert_int_equal(totals.dropped, 0);
    struct reading got = end(&m);
    check(&got, 1, MT_FREE, 0x1000, 0x1000, 1);
    check(&got, 2, MT_NEW, 0x1000, 0x800, 0);
    check(&got, 3, MT_FREE, 0x1000, 0x800, 1);
    check(&got, 7, MT_FREE, 0x1200, 0x40, 1);
    assert_int_equal(got.events[8].kind, MT_BADFREE);
    assert_int_equal(got.events[8].how, MT_BADFREE_DOUBLE);
    assert_int_equal(got.events[8].handle, 0);
    assert_int_equal(got.count, 9);
    reading_free(&got);
}

static void test_heap_goes_with_its_containers(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    block(&m, POOL, 0x1000, 0x1000);
    block(&m, INNER, 0x1100, 0x40);
    mt_writer_heap_free(m.w, POOL, 0);
    block(&m, INNER, 0x1100, 0x40);
    struct reading got = end(&m);
    check(&got, 3, MT_FREE, 0x1100, 0x40, 1);
    assert_int_equal(got.count, 5);
    reading_free(&got);
}

/* Blocks are marked within a block that is freed before they are. A second free is an error, and so is a free of
 * an address that was never a block. */
static void test_pieces_freed_after_their_container(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    block(&m, MALLOC, 0x1000, 0x100);
    block(&m, POOL, 0x1010, 0xe0);
    block(&m, INNER, 0x1020, 0x20); /* makes the pool's block a container, too */
    mt_writer_block_free(m.w, 0x1000, MALLOC, 0);
    mt_writer_block_resize(m.w, 0x1020, 0x1028, 0x18, INNER, MT_HOW_CUSTOM, 0);
    block(&m, MALLOC, 0x1000, 0x100); /* the memory is reused before the frees come */
    mt_writer_block_free(m.w, 0x1028, INNER, 0);
    mt_writer_block_free(m.w, 0x1010, POOL, 0);
    mt_writer_block_free(m.w, 0x1010, POOL, 0);
    mt_writer_block_free(m.w, 0x1030, INNER, 0);
    struct reading got = end(&m);
    assert_int_equal(got.count, 9);
    check(&got, 5, MT_FREE, 0x1020, 0x20, 1);
    check(&got, 6, MT_NEW, 0x1000, 0x100, 0);
    for (size_t i = 7; i < 9; i++)
        assert_int_equal(got.events[i].kind, MT_BADFREE);
    reading_free(&got);
}

/* A block at the address of one that ended with its container can be freed once, and not twice. */
static void test_piece_made_again(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    for (int i = 0; i < 2; i++) {
        block(&m, MALLOC, 0x1000, 0x100);
        block(&m, POOL, 0x1010, 0x40);
        mt_writer_block_free(m.w, 0x1000, MALLOC, 0);
    }
    block(&m, POOL, 0x1010, 0x40);
    mt_writer_block_free(m.w, 0x1010, POOL, 0);
    mt_writer_block_free(m.w, 0x1010, POOL, 0);
    struct reading got = end(&m);
    check(&got, got.count - 2, MT_FREE, 0x1010, 0x40, 0);
    assert_int_equal(got.events[got.count - 1].kind, MT_BADFREE);
    assert_int_equal(got.events[got.count - 1].how, MT_BADFREE_DOUBLE);
    reading_free(&got);
}

/* Memory stays bounded however many blocks are never freed, and the last ones are known. */
static void test_pieces_never_freed(void **state)
{
    (void)state;
    enum { N = 3 << 16 };
    struct made m = begin(NULL), child = {.fd = memory_file(NULL, 0)};
    for (uint64_t i = 0; i < N; i++) {
        block(&m, MALLOC, 0x1000 + i * 64, 64);
        block(&m, POOL, 0x1010 + i * 64, 16);
        mt_writer_block_free(m.w, 0x1000 + i * 64, MALLOC, 0);
    }
    child.w = mt_writer_fork(m.w, child.fd, NULL, NULL);
    assert_non_null(child.w);
    struct made *both[] = {&m, &child};
    for (unsigned k = 0; k < 2; k++) {
        mt_writer_block_free(both[k]->w, 0x1010 + (N - 1) * UINT64_C(64), POOL, 0);
        mt_writer_block_free(both[k]->w, 0x1010 + (N - 60000) * UINT64_C(64), POOL, 0);
        struct reading got = end(both[k]);
        assert_int_equal(got.count, k ? 0 : N * 4);
        reading_free(&got);
    }
}

static void test_unmap(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    block(&m, MMAP, 0x10000, 0x8000);
    mt_writer_unmap(m.w, 0x12000, 0x1000, MMAP, 0);
    block(&m, POOL, 0x14000, 0x100); /* the second part becomes a container */
    mt_writer_unmap(m.w, 0x17000, 0x1000, MMAP, 0);
    mt_writer_unmap(m.w, 0x13000, 0x2000, MMAP, 0);
    mt_writer_remap(m.w, 0x10000, 0x2000, 0x40000, 0x9000, MMAP, 0);
    struct reading got = end(&m);
    check(&got, 1, MT_RESIZE, 0x10000, 0x2000, 0);
    check(&got, 2, MT_NEW, 0x13000, 0x5000, 0);
    check(&got, 3, MT_FREE, 0x13000, 0x5000, 1);
    check(&got, 5, MT_FREE, 0x14000, 0x100, 1);
    check(&got, 6, MT_RESIZE, 0x40000, 0x9000, 0);
    assert_int_equal(got.count, 7);
    reading_free(&got);
}

/* A New that overlaps another allocator's block without being inside it is still counted as a loss. */
static void test_what_is_no_piece(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    block(&m, POOL, 0x1000, 0x100);
    block(&m, MALLOC, 0x1010, 0x10); /* malloc does not allocate from pools */
    block(&m, INNER, 0x2000, 0x100);
    block(&m, POOL, 0x20f0, 0x20); /* extends beyond the block */
    struct mt_totals totals;
    mt_writer_totals(m.w, &totals);
    assert_int_equal(totals.dropped, 2);
    struct reading got = end(&m);
    assert_int_equal(got.count, 6);
    reading_free(&got);
}

static bool overlap(const struct mt_event *a, const struct mt_event *b)
{
    return a->addr < b->addr + b->size && b->addr < a->addr + a->size;
}

/* Live blocks never overlap, whatever the heaps do to each other. */
static void check_no_overlap(const struct reading *got)
{
    static struct mt_event live[4096];
    memset(live, 0, sizeof live);
    for (size_t i = 0; i < got->count; i++) {
        const struct mt_event *e = &got->events[i];
        if (e->kind != MT_NEW && e->kind != MT_RESIZE && e->kind != MT_FREE)
            continue;
        assert_true(e->slot < 4096);
        live[e->slot] = *e;
        live[e->slot].size = e->kind == MT_FREE ? 0 : e->size;
        for (uint32_t slot = 0; slot < 4096 && e->kind != MT_FREE; slot++)
            assert_true(slot == e->slot || live[slot].size == 0 || !overlap(&live[slot], e));
    }
}

static void at_random(struct made *m, uint64_t *seed)
{
    uint64_t addr = 0x10000 + 16 * random_below(seed, 2000), size = 16 * (1 + random_below(seed, 60));
    uint32_t heap = (uint32_t)random_below(seed, HEAPS);
    switch (random_below(seed, 8)) {
    case 0:
        mt_writer_unmap(m->w, addr, size, MMAP, 0);
        break;
    case 1:
        mt_writer_remap(m->w, addr, size, addr + 0x1000, 2 * size, MMAP, 0);
        break;
    case 2:
        mt_writer_trim(m->w, 0x10000 + size, 30000, heap, 0);
        break;
    case 3:
    case 4:
        mt_writer_block_free(m->w, addr, heap, 0);
        break;
    case 5:
        mt_writer_block_resize(m->w, addr, addr + 16, size, heap, MT_HOW_CUSTOM, 0);
        break;
    default:
        block(m, heap, addr, size);
    }
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 30; seed++) {
        uint64_t numbers = seed;
        struct made m = begin(&(struct mt_writer_options){.chunk_events = 100, .checkpoint_interval = 2});
        for (int i = 0; i < 600; i++)
            at_random(&m, &numbers);
        struct reading got = end(&m);
        check_no_overlap(&got);
        memset(&m, 0, sizeof m);
        reading_free(&got);
    }
}

static void test_fork_takes_containers_along(void **state)
{
    (void)state;
    struct made m = begin(NULL), child = {.fd = memory_file(NULL, 0)};
    block(&m, MALLOC, 0x1000, 0x1000);
    block(&m, POOL, 0x1100, 0x40);
    child.w = mt_writer_fork(m.w, child.fd, NULL, NULL);
    assert_non_null(child.w);
    mt_writer_block_free(child.w, 0x1000, MALLOC, 0);
    struct reading got = end(&child), parents = end(&m);
    check(&got, 0, MT_NEW, 0x1100, 0x40, 0);
    check(&got, 1, MT_FREE, 0x1100, 0x40, 1);
    assert_int_equal(got.count, 2);
    reading_free(&got);
    reading_free(&parents);
}

/* What a forked child inherits of the blocks that ended with their containers: it may free each of them, once. */
static void test_fork_takes_pieces_along(void **state)
{
    (void)state;
    struct made m = begin(NULL), child = {.fd = memory_file(NULL, 0)};
    block(&m, MALLOC, 0x1000, 0x1000);
    block(&m, POOL, 0x1100, 0x40);
    block(&m, POOL, 0x1200, 0x40);
    mt_writer_block_free(m.w, 0x1000, MALLOC, 0);
    child.w = mt_writer_fork(m.w, child.fd, NULL, NULL);
    assert_non_null(child.w);
    for (int i = 0; i < 2; i++) {
        mt_writer_block_free(child.w, 0x1100, POOL, 0);
        mt_writer_block_free(child.w, 0x1200, POOL, 0);
    }
    struct reading got = end(&child), parents = end(&m);
    assert_int_equal(got.count, 2);
    for (size_t i = 0; i < got.count; i++)
        assert_int_equal(got.events[i].kind, MT_BADFREE);
    reading_free(&got);
    reading_free(&parents);
}

/* -- the list of containers -- */

/* Blocks with the handles 0 to 5, of which 0, 1 and 5 are containers. Block 4 has the place of the container 0. */
static void nest(struct made *m)
{
    block(m, MALLOC, 0x1000, 0x1000);
    block(m, POOL, 0x1000, 0x800);
    block(m, INNER, 0x1100, 0x40);
    block(m, MALLOC, 0x9000, 0x1000);
    mt_writer_block_free(m->w, 0x1000, MALLOC, 0);
    block(m, MALLOC, 0x1000, 0x1000);
    mt_writer_block_resize(m->w, 0x1000, 0x1000, 0x2000, MALLOC, MT_HOW_REALLOC, 0);
    block(m, MMAP, 0x20000, 0x1000);
    mt_writer_block_resize(m->w, 0x20000, 0x20000, 0x2000, MMAP, MT_HOW_CUSTOM, 0);
    block(m, POOL, 0x21000, 0x10);
}

static bool is_container(uint64_t handle)
{
    return handle == 0 || handle == 1 || handle == 5;
}

static struct bytes nested_file(uint64_t limit)
{
    struct made m = begin(&(struct mt_writer_options){.chunk_events = 1, .checkpoint_interval = 1});
    if (limit)
        mt_writer_limit(m.w, limit, "too much");
    nest(&m);
    assert_int_equal(mt_writer_finish(m.w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(m.fd);
    close(m.fd);
    return file;
}

/* How many events of a block that is a container, as far as the reader knows. */
static unsigned events_of_containers(const struct reading *got)
{
    unsigned n = 0;
    for (size_t i = 0; i < got->count; i++) {
        const struct mt_event *e = &got->events[i];
        if (e->kind > MT_RESIZE || !e->container)
            continue;
        assert_true(is_container(e->handle));
        assert_int_equal(e->kept, e->handle == 5);
        n++;
    }
    return n;
}

static void test_list(void **state)
{
    (void)state;
    struct bytes file = nested_file(0);
    struct reading got = read_bytes(file.data, file.size, MT_OPEN_DEFAULT);
    assert_int_equal(got.result, MT_END);
    assert_int_equal(events_of_containers(&got), 3 + 3 + 1); /* News, Frees, the Resize of the mapping */
    reading_free(&got);
    free(file.data);
}

/* Blocks that live where reading begins are containers, too. */
static void test_list_and_parts(void **state)
{
    (void)state;
    struct bytes file = nested_file(0);
    int fd = memory_file(file.data, file.size);
    const struct mt_seek_point *points;
    uint32_t n, containers = 0;
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    assert_int_equal(mt_seek_points(r, &points, &n), MT_OK);
    assert_true(n > 4);
    for (uint32_t first = 1; first < n; first++) {
        struct mt_live_block b;
        assert_int_equal(mt_read_range(r, first, n), MT_OK);
        mt_read_checkpoint(r);
        for (uint32_t slot = 0; slot < mt_count_slots(r); slot++)
            if (mt_live_block(r, slot, &b)) {
                assert_int_equal(b.container, is_container(b.handle));
                assert_int_equal(b.kept, b.handle == 5);
                containers += b.container;
            }
    }
    assert_true(containers > 1);
    assert_true(mt_has_containers(r));
    mt_close(r);
    close(fd);
    free(file.data);
}

/* Before anything is read, and not in a trace without containers. */
static void test_has_list(void **state)
{
    (void)state;
    for (int nested = 0; nested < 2; nested++) {
        struct made m = begin(NULL);
        if (nested)
            nest(&m);
        else
            block(&m, MALLOC, 0x1000, 0x1000);
        assert_int_equal(mt_writer_finish(m.w, MT_ENDING_EXIT, NULL), MT_OK);
        struct mt_reader *r = mt_open(memory_path(m.fd), 0, NULL);
        assert_int_equal(mt_has_containers(r), nested);
        mt_close(r);
        close(m.fd);
    }
}

/* The list is in a file of limited size if there is room for it, and not in one that has reached its limit. */
static void test_list_and_limit(void **state)
{
    (void)state;
    unsigned with = 0, without = 0;
    for (uint64_t limit = 2000; limit < 8000; limit += 100) {
        struct bytes file = nested_file(limit);
        struct reading got = read_bytes(file.data, file.size, MT_OPEN_DEFAULT);
        unsigned n = events_of_containers(&got);
        assert_int_equal(got.result, MT_END);
        assert_true(file.size <= limit);
        assert_true(n == 0 || (n == 7 && got.stats.totals.dropped == 0));
        with += n > 0;
        without += n == 0;
        reading_free(&got);
        free(file.data);
    }
    assert_true(with > 0 && without > 0);
}

/* What the parent divided is no block of the child's trace; what the child divides is none of the parent's. */
static void test_list_of_a_forked_child(void **state)
{
    (void)state;
    struct made m = begin(NULL), child = {.fd = memory_file(NULL, 0)};
    block(&m, MALLOC, 0x1000, 0x1000);
    block(&m, POOL, 0x1100, 0x40);
    block(&m, MALLOC, 0x9000, 0x1000);
    child.w = mt_writer_fork(m.w, child.fd, NULL, NULL);
    assert_non_null(child.w);
    block(&child, POOL, 0x9100, 0x40);
    uint64_t kept;
    assert_int_equal(mt_writer_kept_containers(child.w, &kept), 1); /* without the inherited one */
    assert_int_equal(kept, 0x1000);
    struct reading got = end(&child), parents = end(&m);
    for (size_t i = 0; i < got.count; i++)
        assert_int_equal(got.events[i].container, got.events[i].addr == 0x9000);
    for (size_t i = 0; i < parents.count; i++)
        assert_int_equal(parents.events[i].container, parents.events[i].addr == 0x1000);
    reading_free(&got);
    reading_free(&parents);
}

/* Containers that their own allocators free, by their address, with their heap, or by allocating there, and one that is
 * cut in two and not freed. */
static void test_kept(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    uint64_t bytes;
    for (uint64_t addr = 0x10000; addr <= 0x40000; addr += 0x10000) {
        block(&m, MALLOC, addr, 0x2000);
        block(&m, POOL, addr + 0x100, 0x40);
    }
    block(&m, MMAP, 0x50000, 0x3000);
    block(&m, POOL, 0x50000, 0x40);
    assert_int_equal(mt_writer_kept_containers(m.w, &bytes), 5);
    assert_int_equal(bytes, 4 * 0x2000 + 0x3000);
    mt_writer_block_free(m.w, 0x10000, MALLOC, 0);
    mt_writer_block_resize(m.w, 0x20000, 0x20000, 0x1000, MALLOC, MT_HOW_REALLOC, 0);
    block(&m, MALLOC, 0x30000, 0x100); /* its free was missed */
    mt_writer_unmap(m.w, 0x51000, 0x1000, MMAP, 0);
    assert_int_equal(mt_writer_kept_containers(m.w, &bytes), 3);
    assert_int_equal(bytes, 0x2000 + 0x2000); /* at 0x40000, and the two parts of the mapping */
    struct reading got = end(&m);
    unsigned n = 0;
    for (size_t i = 0; i < got.count; i++) {
        const struct mt_event *e = &got.events[i];
        if (e->kind != MT_NEW || e->handle % 2)
            continue;
        if (e->addr >= 0x10000 && e->size >= 0x2000) {
            assert_true(e->container);
            assert_int_equal(e->kept, e->addr >= 0x40000);
            n++;
        }
    }
    assert_int_equal(n, 5);
    reading_free(&got);
}

/* -- limits -- */

static void test_mapped(void **state)
{
    (void)state;
    struct made m = begin(NULL);
    for (uint64_t addr = 0x10000; addr <= 0x30000; addr += 0x10000) {
        block(&m, MALLOC, addr, 0x2000);
        mt_writer_block_free(m.w, addr, MALLOC, 0);
    }
    mt_writer_mapped(m.w, 0x21000, 0x1000); /* in a freed block, after its beginning */
    mt_writer_mapped(m.w, 0x30000, UINT64_MAX);
    for (uint64_t addr = 0x10000; addr <= 0x30000; addr += 0x10000)
        mt_writer_block_free(m.w, addr, MALLOC, 0);
    struct reading got = end(&m);
    assert_int_equal(got.count, 9);
    assert_int_equal(got.events[6].how, MT_BADFREE_DOUBLE);
    assert_int_equal(got.events[7].how, MT_BADFREE_DOUBLE);
    assert_int_equal(got.events[8].how, MT_BADFREE_INVALID);
    reading_free(&got);
}

static void churn(struct made *m, unsigned blocks)
{
    for (unsigned i = 0; i < blocks; i++) {
        uint64_t addr = 0x100000 + 4096 * ((uint64_t)i * i * 7919 % 100003);
        block(m, MALLOC, addr, i % 4000 + 1);
        mt_writer_block_free(m->w, addr, MALLOC, 0);
    }
}

static struct bytes limited(uint64_t bytes, unsigned blocks)
{
    struct made m = begin(&(struct mt_writer_options){.chunk_events = 1000, .checkpoint_interval = 1});
    mt_writer_limit(m.w, bytes, "too much");
    block(&m, MALLOC, 0x1000, 8); /* live where the file is cut off, but not at the end */
    churn(&m, blocks);
    mt_writer_block_free(m.w, 0x1000, MALLOC, 0);
    assert_int_equal(mt_writer_finish(m.w, MT_ENDING_LIMIT, NULL), MT_OK);
    struct bytes file = memory_bytes(m.fd);
    close(m.fd);
    return file;
}

static void test_limit(void **state)
{
    (void)state;
    for (uint64_t bytes = 4096; bytes <= 1 << 20; bytes *= 2) {
        struct bytes file = limited(bytes, 20000);
        struct reading got = read_bytes(file.data, file.size, MT_OPEN_DEFAULT);
        assert_int_equal(got.result, MT_END);
        assert_true(file.size <= bytes);
        uint64_t lost = got.stats.totals.dropped;
        const struct mt_event *last = &got.events[got.count - 1];
        assert_int_equal(got.count - (lost > 0) + lost, 40002);
        if (lost) {
            assert_int_equal(last->kind, MT_LOST);
            assert_int_equal(last->size, lost);
        }
        reading_free(&got);
        free(file.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_superblock),
        cmocka_unit_test(test_heap_goes_with_its_containers),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_unmap),
        cmocka_unit_test(test_what_is_no_piece),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_fork_takes_containers_along),
        cmocka_unit_test(test_fork_takes_pieces_along),
        cmocka_unit_test(test_pieces_freed_after_their_container),
        cmocka_unit_test(test_piece_made_again),
        cmocka_unit_test(test_pieces_never_freed),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_list_and_parts),
        cmocka_unit_test(test_has_list),
        cmocka_unit_test(test_list_and_limit),
        cmocka_unit_test(test_list_of_a_forked_child),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
