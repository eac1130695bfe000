/* test_threads.c - the replay on real threads, on allocators that are simple enough to be checked.
 *
 * The replay runs in the test's own process, so that ThreadSanitizer can watch it (`make tsan-drivers`). One
 * allocator locks for itself, the other has plain counters that only the replay's lock protects. An ops file in which
 * threads pass blocks to each other is replayed. The sums over the threads, every byte of every block and the live
 * bytes at the barriers are compared with a model that does the same in one thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/clock.h"
#include "drivers/base/shared.h"
#include "drivers/heap/region.h"
#include "drivers/run/engine.h"
#include "drivers/run/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPS = 20000, MOST_LIVE = 400, THREADS = 5, HEAP = 64 << 20 };

/* The live bytes after each operation, and the sums. */
struct model {
    uint64_t live[OPS];
    uint64_t news, frees, resizes;
};

static struct model s_model;
static char s_path[] = "/tmp/test_threads-XXXXXX";
static struct plan s_plan;

/* -- two allocators: memory only moves up ------------------------------------------------------- */

static atomic_size_t s_shared_top;
static size_t s_top, s_calls, s_room = SIZE_MAX;

static bool start(void *base, size_t size)
{
    atomic_store(&s_shared_top, 0);
    s_top = s_calls = 0;
    return true;
}

static void *shared_malloc(size_t size, uint32_t id)
{
    size_t at = atomic_fetch_add(&s_shared_top, (size + 15) & ~(size_t)15);
    return at + size <= HEAP ? region_base() + at : NULL;
}

static void shared_free(void *ref, uint32_t id)
{
    *(volatile char *)ref = 0;
}

static void *serial_malloc(size_t size, uint32_t id)
{
    size_t at = s_top;
    if (++s_calls > s_room || at + size > HEAP)
        return NULL;
    s_top += (size + 15) & ~(size_t)15;
    return region_base() + at;
}

static void serial_free(void *ref, uint32_t id)
{
    s_calls++;
}

static void *highest(void)
{
    return region_base() + s_top + atomic_load(&s_shared_top);
}

static const struct steve_driver s_shared = {.name = "shared",
                                             .flags = STEVE_THREADS,
                                             .init = start,
                                             .malloc = shared_malloc,
                                             .free = shared_free,
                                             .highest = highest};
static const struct steve_driver s_serial = {
    .name = "serial", .init = start, .malloc = serial_malloc, .free = serial_free, .highest = highest};

/* -- the ops file --------------------------------------------------------------------------------- */

struct live {
    unsigned handle, size;
};

static unsigned choose(unsigned below)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % below);
}

static void note(unsigned op, uint64_t change)
{
    s_model.live[op] = (op ? s_model.live[op - 1] : 0) + change;
}

static void write_op(FILE *out, unsigned op, struct live *blocks, unsigned *count, unsigned *handles)
{
    unsigned size = 1 + choose(300), what = choose(20), i = *count ? choose(*count) : 0;
    if (*count == 0 || (what < 10 && *count < MOST_LIVE)) {
        blocks[*count] = (struct live){(*handles)++, size};
        fprintf(out, "%u N 0 %u\n", blocks[(*count)++].handle, size);
        note(op, size);
        s_model.news++;
    } else if (what == 19) {
        fprintf(out, "%u R 0 %u\n", blocks[i].handle, size);
        note(op, (uint64_t)size - blocks[i].size);
        blocks[i].size = size;
        s_model.resizes++;
    } else {
        fprintf(out, "%u F 0 0\n", blocks[i].handle);
        note(op, -(uint64_t)blocks[i].size);
        blocks[i] = blocks[--*count];
        s_model.frees++;
    }
}

static int write_ops(void **state)
{
    static struct live blocks[MOST_LIVE + 1];
    unsigned count = 0, handles = 0;
    char text[256];
    int fd = mkstemp(s_path);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out)
        return -1;
    for (unsigned op = 0; op < OPS; op++) {
        if (op % 3 == 0)
            fprintf(out, "# thread %u\n", 1 + choose(THREADS));
        write_op(out, op, blocks, &count, &handles);
    }
    bool good = fclose(out) == 0 && region_reserve(HEAP) &&
                plan_read(&s_plan, s_path, (struct plan_options){.threads = true}, text, sizeof text) &&
                dup2(s_plan.fd, PLAN_FD) == PLAN_FD;
    clock_calibrate();
    unlink(s_path);
    return good ? 0 : -1;
}

/* -- tests ----------------------------------------------------------------------------------------- */

static struct shared *run(const struct steve_driver *d, enum job_kind kind)
{
    static struct shared shared;
    struct engine engine;
    shared = (struct shared){.job = {.kind = kind, .heap = HEAP, .facts = s_plan.facts, .check = true}};
    assert_true(d->init(region_base(), HEAP));
    assert_true(engine_open(&engine, &shared, d));
    threads_run(&engine, NULL);
    return &shared;
}

static void check_totals(const struct shared *b)
{
    assert_string_equal(b->text, "");
    assert_int_equal(b->status, STATUS_DONE);
    assert_int_equal(b->threaded.threads, THREADS);
    assert_int_equal(b->threaded.news, s_model.news);
    assert_int_equal(b->threaded.frees, s_model.frees);
    assert_int_equal(b->threaded.resizes, s_model.resizes);
    assert_int_equal(b->threaded.live_at_end, s_model.live[OPS - 1]);
}

static void test_allocator_that_locks(void **state)
{
    const struct shared *b = run(&s_shared, JOB_THREADS);
    check_totals(b);
    assert_false(b->threaded.locked);
}

static void test_allocator_that_is_locked(void **state)
{
    const struct shared *b = run(&s_serial, JOB_THREADS);
    check_totals(b);
    assert_true(b->threaded.locked);
    assert_int_equal(s_calls, s_model.news + s_model.frees + 2 * s_model.resizes);
}

/* At every barrier, and at the end, the live bytes are those of one thread. */
static void test_barriers(void **state)
{
    const struct steve_driver *const drivers[] = {&s_shared, &s_serial};
    uint64_t step = OPS / BARRIERS + 1, most = s_model.live[OPS - 1], barriers = 1;
    for (uint64_t cut = step; cut < OPS; cut += step, barriers++)
        most = s_model.live[cut - 1] > most ? s_model.live[cut - 1] : most;
    for (int i = 0; i < 2; i++) {
        const struct shared *b = run(drivers[i], JOB_THREADS_SPACE);
        check_totals(b);
        assert_int_equal(b->threads_space.barriers, barriers);
        assert_int_equal(b->threads_space.fragmentation.most_live, most);
        assert_int_equal(b->threads_space.most_used, s_top + atomic_load(&s_shared_top));
    }
}

/* All threads end when there is no room for one of them, including those that wait at a barrier. */
static void test_no_room(void **state)
{
    for (int i = 0; i < 2; i++) {
        s_room = OPS / 3;
        const struct shared *b = run(&s_serial, i ? JOB_THREADS_SPACE : JOB_THREADS);
        s_room = SIZE_MAX;
        assert_int_equal(b->status, STATUS_NO_ROOM);
        assert_true(b->op_index < OPS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocator_that_locks),
        cmocka_unit_test(test_allocator_that_is_locked),
        cmocka_unit_test(test_barriers),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, write_ops, NULL);
}
