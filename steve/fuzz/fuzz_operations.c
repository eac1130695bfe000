/* fuzz_operations.c - fuzz target: any bytes as a memtrace and as an ops file, through the kernels of
 * operations.
 *
 * Like fuzz_kernels.c, but for the kernels that process operations: lifetimes, and the locks made from them. The rules
 * of locks depend on the kind of the file, so all kinds are tried. Full locks need the list of blocks that are never
 * freed. It is taken once from a walk, and once from the file, where it may be wrong.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memtrace/fuzz/input.h"
#include "memtrace/ops/source.h"
#include "steve/kernels/locks/survivors.h"
#include "steve/kernels/locks/full.h"
#include "steve/kernels/locks/simple.h"
#include "steve/kernels/locks/stats.h"
#include "steve/kernels/totals/lifetimes.h"

typedef void (*take)(void *kernel, const struct op *ops, size_t n);

static void walk_ops(take f, void *kernel, bool of_trace)
{
    const struct op_source_options options = {.resizes = !of_trace, .threads = of_trace, .times = of_trace};
    struct mt_error err;
    struct mt_reader *trace = of_trace ? mt_open(s_path, 0, &err) : NULL;
    struct ops_reader *ops = of_trace ? NULL : ops_open(s_path, OPS_ACCESS, &err);
    struct op_source *s = trace || ops ? op_source_new(trace, ops, options) : NULL;
    const struct op *found;
    size_t n;

    while (s && op_source_next(s, &found, &n) == MT_MORE)
        f(kernel, found, n);
    op_source_free(s);
    ops_close(ops);
    mt_close(trace);
}

static void take_lifetimes(void *k, const struct op *ops, size_t n)
{
    must(lifetimes_feed(k, ops, n));
}

static void take_simple(void *k, const struct op *ops, size_t n)
{
    must(locksimple_feed(k, ops, n));
}

static void take_unfreed(void *k, const struct op *ops, size_t n)
{
    must(unfreed_feed(k, ops, n));
}

struct written {
    struct locksimple_writer writer;
    struct lockstats stats;
};

static void take_written(void *k, const struct op *ops, size_t n)
{
    struct written *w = k;
    struct op *out = malloc((2 * n + 1) * sizeof *out);
    uint64_t *at = malloc((2 * n + 1) * sizeof *at);

    must(out && at);
    must(lockstats_feed(&w->stats, out, at, locksimple_write(&w->writer, ops, n, out, at)));
    free(out);
    free(at);
}

struct full {
    struct lockfull locks;
    struct lockstats stats;
};

static void take_full(void *k, const struct op *ops, size_t n)
{
    struct full *f = k;

    must(lockfull_feed(&f->locks, ops, n));
    must(lockstats_feed(&f->stats, f->locks.out, f->locks.at, f->locks.n_out));
}

static void simple_locks(bool of_trace)
{
    struct locksimple plan;
    struct written w;

    must(locksimple_init(&plan, 500, of_trace));
    walk_ops(take_simple, &plan, of_trace);
    must(locksimple_finish(&plan) && locksimple_writer_init(&w.writer, &plan, true) &&
         lockstats_init(&w.stats));
    walk_ops(take_written, &w, of_trace);
    lockstats_finish(&w.stats, w.writer.index);
    lockstats_free(&w.stats);
    locksimple_writer_free(&w.writer);
    locksimple_free(&plan);
}

/* Whether the list was right. */
static bool full_locks_by(const uint64_t *list, size_t n, bool of_trace)
{
    const struct lockfull_rules rules = {
        .gain = 5, .decay = 2, .threshold = 3, .unlock_before_free = of_trace};
    struct full f;
    bool right;

    must(lockstats_init(&f.stats) && lockfull_init(&f.locks, list, n, rules));
    walk_ops(take_full, &f, of_trace);
    right = mortals_right(&f.locks.mortals);
    lockstats_finish(&f.stats, f.locks.index);
    lockstats_free(&f.stats);
    lockfull_free(&f.locks);
    return right;
}

/* By the list that the file has, if it has one. */
static void foretold_locks(bool of_trace)
{
    struct mt_error err;
    struct mt_reader *trace = of_trace ? mt_open(s_path, 0, &err) : NULL;
    uint64_t *list = NULL;
    size_t n;

    if (of_trace ? trace && mt_survivors(trace, &list, &n) : ops_read_survivors(s_path, &list, &n))
        full_locks_by(list, n, of_trace);
    free(list);
    mt_close(trace);
}

static void full_locks(bool of_trace)
{
    struct unfreed unfreed;

    must(unfreed_init(&unfreed));
    walk_ops(take_unfreed, &unfreed, of_trace);
    must(unfreed_finish(&unfreed));
    if (!full_locks_by(unfreed.list, unfreed.n, of_trace))
        abort();
    unfreed_free(&unfreed);
    foretold_locks(of_trace);
}

static void operations(bool of_trace)
{
    struct lifetimes l;

    must(lifetimes_init(&l));
    walk_ops(take_lifetimes, &l, of_trace);
    lifetimes_finish(&l);
    lifetimes_free(&l);
    simple_locks(of_trace);
    full_locks(of_trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = input_begin(data, size);

    operations(true);
    operations(false);
    close(fd);
    return 0;
}
