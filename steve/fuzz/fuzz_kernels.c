/* fuzz_kernels.c - fuzz target: any bytes as a memtrace or an ops file, through every kernel of steve.
 *
 * The readers promise the kernels what memtrace.h says of events; here it is seen that no kernel needs more than
 * that. Chunks are repaired as in memtrace/fuzz/fuzz_reader.c, whose work the readers themselves are. Each kernel
 * walks over the file once more, as commands do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "memtrace/format.h"
#include "steve/kernels/check.h"
#include "steve/kernels/classic.h"
#include "steve/kernels/fields.h"
#include "steve/kernels/groups.h"
#include "steve/kernels/lifetimes.h"
#include "steve/kernels/lives.h"
#include "steve/kernels/lockfull.h"
#include "steve/kernels/locksimple.h"
#include "steve/kernels/lockstack.h"
#include "steve/kernels/lockstats.h"
#include "steve/kernels/luacode.h"
#include "steve/kernels/opsource.h"
#include "steve/kernels/profile.h"
#include "steve/kernels/reuse.h"
#include "steve/kernels/sharing.h"
#include "steve/kernels/states.h"
#include "steve/kernels/summary.h"
#include "steve/kernels/survey.h"
#include "steve/kernels/unfreed.h"
#include "steve/kernels/walk.h"
#include "steve/kernels/workingset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char s_path[64];

static void must(bool ok)
{
    if (!ok)
        abort(); /* out of memory: the kernels' only failure */
}

/* Set the checksums of every chunk right. */
static void repair(uint8_t *data, size_t size)
{
    size_t at = FILE_HEADER_SIZE;

    while (at + CHUNK_HEADER_SIZE <= size) {
        uint8_t *h = data + at;
        size_t stored = load_u32(h + 16), rest = size - at - CHUNK_HEADER_SIZE;

        memcpy(h, CHUNK_MAGIC, MAGIC_SIZE);
        if (stored <= rest)
            store_u64(h + 56, XXH3_64bits(h + CHUNK_HEADER_SIZE, stored));
        store_u64(h + 64, XXH3_64bits(h, 64));
        at += CHUNK_HEADER_SIZE + (stored <= rest ? stored : rest);
    }
}

/* ---- kernels of events --------------------------------------------------------------------- */

/* One of them: `feed` is given each batch. */
typedef void (*feed)(void *kernel, struct mt_reader *r, const struct mt_event *events, size_t n);

static void walk_over(feed f, void *kernel, unsigned flags)
{
    const struct mt_event *events;
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, flags, &err);
    size_t n;

    while (r && mt_next(r, &events, &n) == MT_MORE)
        f(kernel, r, events, n);
    mt_close(r);
}

static void feed_summary(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    must(summary_feed(k, events, n, mt_count_stacks(r)));
}

static void feed_check(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    struct check_ids ids = {
        .stacks = mt_count_stacks(r), .sites = mt_count_sites(r), .heaps = mt_count_heaps(r)};

    must(check_feed(k, ids, events, n));
}

static void feed_profile(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    must(profile_feed(k, events, n, mt_count_stacks(r), mt_count_heaps(r)));
}

static void feed_survey(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    (void)r;
    must(survey_feed(k, events, n));
}

static void feed_workingset(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    (void)r;
    must(workingset_feed(k, events, n));
}

static void feed_reuse(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    (void)r;
    must(reuse_feed(k, events, n));
}

static void feed_sharing(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    (void)r;
    must(sharing_feed(k, events, n));
}

static void feed_states(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    (void)r;
    must(states_feed(k, events, n));
}

struct texts {
    struct textout *out;
    struct classic_counts counts;
};

static void feed_classic(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    struct texts *t = k;

    (void)r;
    classic_write(t->out, events, n, &t->counts);
}

static void totals(void)
{
    struct summary summary;
    struct check check;
    struct survey survey;
    struct profile *profile = profile_new(8);

    summary_init(&summary);
    walk_over(feed_summary, &summary, 0);
    summary_free(&summary);
    check_init(&check);
    walk_over(feed_check, &check, 0);
    check_free(&check);
    survey_init(&survey, false);
    walk_over(feed_survey, &survey, 0);
    survey_free(&survey);
    must(profile);
    walk_over(feed_profile, profile, 0);
    profile_finish(profile);
    profile_free(profile);
}

static void accesses(void)
{
    struct workingset windows;
    struct reuse reuse;
    struct sharing sharing;
    struct states states;

    must(workingset_init(&windows, 7));
    walk_over(feed_workingset, &windows, 0);
    must(workingset_finish(&windows));
    workingset_free(&windows);
    must(reuse_init(&reuse, 6, 1));
    walk_over(feed_reuse, &reuse, 0);
    reuse_free(&reuse);
    must(sharing_init(&sharing));
    walk_over(feed_sharing, &sharing, 0);
    sharing_free(&sharing);
    must(states_init(&states));
    walk_over(feed_states, &states, 0);
    states_finish(&states, 0);
    states_free(&states);
}

static void texts(void)
{
    struct texts t = {.out = malloc(sizeof *t.out)};
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    must(t.out && fd >= 0);
    textout_init(t.out, fd);
    walk_over(feed_classic, &t, 0);
    textout_finish(t.out);
    close(fd);
    free(t.out);
}

/* ---- lives, and what depends on what they tell --------------------------------------------- */

struct chosen {
    uint8_t bits[4096]; /* handles above are not chosen */
    uint64_t largest;
};

/* Choose every other block. */
static void take_lives(struct lives *l, struct groups *by_type, struct groups *by_stack, struct chosen *chosen)
{
    for (size_t i = 0; i < l->n_out; i++) {
        uint8_t keep = (l->out[i].handle & 1) == 0;

        lives_mark(chosen->bits, 8 * sizeof chosen->bits, &l->out[i], &keep, 1);
        chosen->largest = l->out[i].most > chosen->largest ? l->out[i].most : chosen->largest;
    }
    must(groups_add(by_type, GROUPS_BY_TYPE, l->out, NULL, l->n_out));
    must(groups_add(by_stack, GROUPS_BY_STACK, l->out, NULL, l->n_out));
    l->n_out = 0;
}

static void feed_all(struct lives *l, const struct mt_event *events, size_t n, uint32_t sites)
{
    while (n > 0) {
        size_t used = lives_feed(l, events, n, sites);

        must(used <= n);
        events += used;
        n -= used;
    }
}

static void lives_of(struct chosen *chosen)
{
    const struct mt_event *events;
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);
    struct lives l;
    struct luacode code;
    struct groups by_type, by_stack;
    size_t n;

    if (!r)
        return;
    lives_init(&l, NULL, 0);
    must(luacode_init(&code, r));
    l.code = &code;
    groups_init(&by_type);
    groups_init(&by_stack);
    while (mt_next(r, &events, &n) == MT_MORE) {
        feed_all(&l, events, n, mt_count_sites(r));
        take_lives(&l, &by_type, &by_stack, chosen);
    }
    do {
        must(lives_finish(&l));
        n = l.n_out;
        take_lives(&l, &by_type, &by_stack, chosen);
    } while (n > 0);
    groups_settle(&by_stack, l.totals.peak);
    groups_free(&by_type);
    groups_free(&by_stack);
    lives_free(&l);
    luacode_free(&code);
    mt_close(r);
}

struct mapped {
    struct fields fields;
    struct walk walk;
};

static void feed_mapped(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    struct mapped *m = k;
    const struct mt_event *kept = walk_filter(&m->walk, events, n);

    (void)r;
    must(kept && fields_feed(&m->fields, kept, n));
    must(walk_pack(&m->walk, n) <= n);
}

static void fields_of(const struct chosen *chosen)
{
    const uint32_t group_of[8] = {0, 0, 0, UINT32_MAX, 0, 0, 0, 0};
    struct mapped m;

    walk_init(&m.walk, chosen->bits, 8 * sizeof chosen->bits);
    must(fields_init(&m.fields, group_of, 8, &chosen->largest, 1));
    walk_over(feed_mapped, &m, 0);
    fields_free(&m.fields);
    walk_free(&m.walk);
}

static void stack_locks(void)
{
    const struct mt_event *events;
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);
    struct lockstack l;
    size_t n;

    if (!r)
        return;
    lockstack_init(&l, r, true);
    while (mt_next(r, &events, &n) == MT_MORE)
        must(lockstack_feed(&l, events, n));
    lockstack_free(&l);
    mt_close(r);
}

/* ---- kernels of operations ----------------------------------------------------------------- */

typedef void (*take)(void *kernel, const struct op *ops, size_t n);

static void walk_ops(take f, void *kernel, bool of_trace)
{
    const struct op_wishes wishes = {.resizes = !of_trace, .threads = of_trace, .times = of_trace};
    struct mt_error err;
    struct mt_reader *trace = of_trace ? mt_open(s_path, 0, &err) : NULL;
    struct ops_reader *ops = of_trace ? NULL : ops_open(s_path, OPS_ACCESS, &err);
    struct op_source *s = trace || ops ? op_source_new(trace, ops, wishes) : NULL;
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
    must(locksimple_finish(&plan) && locksimple_writer_init(&w.writer, &plan, true) && lockstats_init(&w.stats));
    walk_ops(take_written, &w, of_trace);
    lockstats_finish(&w.stats, w.writer.index);
    lockstats_free(&w.stats);
    locksimple_writer_free(&w.writer);
    locksimple_free(&plan);
}

static void full_locks(bool of_trace)
{
    const struct lockfull_rules rules = {.gain = 5, .decay = 2, .threshold = 3, .unlock_before_free = of_trace};
    struct unfreed unfreed;
    struct full f;

    must(unfreed_init(&unfreed));
    walk_ops(take_unfreed, &unfreed, of_trace);
    must(unfreed_finish(&unfreed) && lockstats_init(&f.stats) &&
         lockfull_init(&f.locks, unfreed.list, unfreed.n, rules));
    walk_ops(take_full, &f, of_trace);
    lockstats_finish(&f.stats, f.locks.index);
    lockstats_free(&f.stats);
    lockfull_free(&f.locks);
    unfreed_free(&unfreed);
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
    uint8_t *copy = malloc(size + 1);
    int fd = memfd_create("fuzz", 0);
    struct chosen chosen = {.largest = 1};

    must(copy && fd >= 0);
    memcpy(copy, data, size);
    if (size > FILE_HEADER_SIZE && memcmp(copy, FILE_MAGIC, 4) == 0)
        repair(copy, size);
    must(write(fd, copy, size) == (ssize_t)size);
    snprintf(s_path, sizeof s_path, "/proc/self/fd/%d", fd);
    totals();
    accesses();
    texts();
    lives_of(&chosen);
    fields_of(&chosen);
    stack_locks();
    operations(true);
    operations(false);
    close(fd);
    free(copy);
    return 0;
}
