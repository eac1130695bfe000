/* fuzz_kernels.c - fuzz target: any bytes as a memtrace, through the kernels of events.
 *
 * The readers promise the kernels what memtrace.h says of events; here it is seen that no kernel needs more
 * than that. The readers themselves are the work of memtrace/fuzz.
 * Each kernel walks over the file once more, as commands do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>

#include "memtrace/fuzz/input.h"
#include "steve/kernels/accesses/fields.h"
#include "steve/kernels/accesses/reuse.h"
#include "steve/kernels/accesses/sharing.h"
#include "steve/kernels/accesses/states.h"
#include "steve/kernels/accesses/workingset.h"
#include "steve/kernels/base/batch_walk.h"
#include "steve/kernels/base/survey.h"
#include "steve/kernels/base/walk.h"
#include "steve/kernels/lines/line_segments.h"
#include "steve/kernels/lines/lua_lines.h"
#include "steve/kernels/lives/cells.h"
#include "steve/kernels/lives/faults.h"
#include "steve/kernels/lives/groups.h"
#include "steve/kernels/lives/lives.h"
#include "steve/kernels/lives/profile.h"
#include "steve/kernels/locks/full.h"
#include "steve/kernels/locks/stack.h"
#include "steve/kernels/totals/check.h"
#include "steve/kernels/totals/classic_text.h"
#include "steve/kernels/totals/summary.h"

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
    struct mt_step step;
    const struct mt_batch batch = batch_of_events(events, n, &step);

    must(summary_feed(k, &batch, mt_count_stacks(r)));
}

static struct check_ids ids_of(const struct mt_reader *r)
{
    return (struct check_ids){mt_count_stacks(r), mt_count_sites(r), mt_count_heaps(r)};
}

static void feed_check(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    must(check_feed(k, ids_of(r), events, events, n));
}

static void feed_profile(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    struct mt_step step;
    const struct mt_batch batch = batch_of_events(events, n, &step);

    must(profile_feed(k, &batch, mt_count_stacks(r), mt_count_heaps(r)));
}

static void feed_cells(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    (void)r;
    struct mt_step step;
    const struct mt_batch batch = batch_of_events(events, n, &step);

    must(cells_feed(k, &batch));
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
    struct cells cells;

    summary_init(&summary);
    walk_over(feed_summary, &summary, 0);
    summary_free(&summary);
    check_init(&check);
    walk_over(feed_check, &check, 0);
    check_free(&check);
    survey_init(&survey, SURVEY_HANDLES | SURVEY_OWNERS | SURVEY_SPLIT);
    walk_over(feed_survey, &survey, 0);
    survey_free(&survey);
    must(profile);
    walk_over(feed_profile, profile, 0);
    profile_finish(profile);
    profile_free(profile);
    cells_init(&cells, 20);
    walk_over(feed_cells, &cells, 0);
    must(cells_finish(&cells));
    cells_free(&cells);
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
    must(sharing_finish(&sharing));
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
static void take_lives(struct lives *l, struct groups *by_type, struct groups *by_stack,
                       struct chosen *chosen)
{
    for (size_t i = 0; i < l->n_out; i++) {
        uint8_t keep = (l->out[i].handle & 1) == 0;

        lives_mark(chosen->bits, 8 * sizeof chosen->bits, &l->out[i], &keep, 1);
        chosen->largest = l->out[i].most > chosen->largest ? l->out[i].most : chosen->largest;
    }
    must(groups_add(by_type, l->out, NULL, l->n_out));
    must(groups_add(by_stack, l->out, NULL, l->n_out));
    l->n_out = 0;
}

static void feed_all(struct lives *l, const struct mt_event *events, size_t n, uint32_t sites)
{
    struct mt_step step;
    const struct mt_batch batch = batch_of_events(events, n, &step);

    must(lives_feed(l, &batch, sites));
}

/* The same sums, made as lives end. */
static void sum_lives(struct groups *by_stack)
{
    const struct mt_event *events;
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);
    struct lives l;
    size_t n;

    must(r != NULL);
    lives_init(&l, NULL, 0);
    l.sums = by_stack;
    while (mt_next(r, &events, &n) == MT_MORE)
        feed_all(&l, events, n, mt_count_sites(r));
    must(lives_finish(&l) && l.n_out == 0);
    lives_free(&l);
    mt_close(r);
}

static void compare_sums(const struct groups *by_stack)
{
    struct groups direct;

    groups_init(&direct, GROUPS_BY_STACK);
    sum_lives(&direct);
    must(direct.of_keys.n == by_stack->of_keys.n);
    must(direct.of_keys.n == 0 ||
         memcmp(direct.rows, by_stack->rows, direct.of_keys.n * sizeof *direct.rows) == 0);
    groups_free(&direct);
}

static void lives_of(struct chosen *chosen)
{
    const struct mt_event *events;
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);
    struct lives l;
    struct groups by_type, by_stack;
    size_t n;

    if (!r)
        return;
    lives_init(&l, NULL, 0);
    groups_init(&by_type, GROUPS_BY_TYPE);
    groups_init(&by_stack, GROUPS_BY_STACK);
    while (mt_next(r, &events, &n) == MT_MORE) {
        feed_all(&l, events, n, mt_count_sites(r));
        take_lives(&l, &by_type, &by_stack, chosen);
    }
    do {
        must(lives_finish(&l));
        n = l.n_out;
        take_lives(&l, &by_type, &by_stack, chosen);
    } while (n > 0);
    compare_sums(&by_stack);
    groups_settle(&by_stack, l.totals.peak);
    groups_free(&by_type);
    groups_free(&by_stack);
    lives_free(&l);
    mt_close(r);
}

/* One part of a trace, added to the whole. */
static void add_part(struct lives *whole, uint32_t first)
{
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);
    const struct mt_seek_point *points;
    struct mt_live_block block;
    struct lives_totals began;
    struct mt_batch batch;
    struct lives l;
    uint32_t n;

    lives_init(&l, NULL, 0);
    if (r && mt_seek_points(r, &points, &n) == MT_OK && mt_read_range(r, first, first + 1) == MT_OK) {
        mt_read_checkpoint(r);
        for (uint32_t slot = 0; slot < mt_count_slots(r); slot++)
            must(!mt_live_block(r, slot, &block) || lives_shard_enter(&l, &block));
        began = l.totals;
        while (mt_next_batch(r, &batch) == MT_MORE)
            must(lives_feed(&l, &batch, mt_count_sites(r)));
        must(lives_shard_finish(&l) && lives_merge(whole, l.pieces, l.n_pieces, &l.totals, &began));
    }
    lives_free(&l);
    mt_close(r);
}

/* Lives of a trace in as many parts as there can be. */
static void lives_in_shards(void)
{
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);
    const struct mt_seek_point *points;
    struct lives whole;
    uint32_t n;

    lives_init(&whole, NULL, 0);
    if (r && mt_seek_points(r, &points, &n) == MT_OK)
        for (uint32_t first = 0; first < n && first < 50; first++)
            add_part(&whole, first);
    do {
        whole.n_out = 0;
        must(lives_finish(&whole));
    } while (whole.n_out > 0);
    lives_free(&whole);
    mt_close(r);
}

/* Numbers of lines that look as if they were right: any, below 5. */
#define MANY 100000
static uint32_t s_lines[MANY];

static bool learn_lines(struct linework *w, struct luacode *code, const struct mt_reader *r)
{
    struct linework_map map = {s_lines, s_lines, s_lines, mt_count_stacks(r), mt_count_sites(r), 5};

    if (!luacode_learn(code))
        return false;
    map.n_stacks = map.n_stacks < MANY ? map.n_stacks : MANY;
    map.n_sites = map.n_sites < MANY ? map.n_sites : MANY;
    return code->n_places < MANY && linework_learn(w, &map);
}

/* Batches by turns as events and as segments. */
static void feed_lines(struct lives *l, struct mt_reader *r)
{
    struct mt_batch batch;
    const struct mt_event *events;
    size_t n;

    while (mt_next_batch(r, &batch) == MT_MORE && learn_lines(l->lines, l->lines->code, r)) {
        must(lives_feed(l, &batch, mt_count_sites(r)));
        if (mt_next(r, &events, &n) != MT_MORE || !learn_lines(l->lines, l->lines->code, r))
            return;
        feed_all(l, events, n, mt_count_sites(r));
        l->n_out = 0;
    }
}

static void lines_of(void)
{
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);
    struct lives l;
    struct luacode code;
    struct linework work;

    if (!r)
        return;
    for (uint32_t i = 0; i < MANY; i++)
        s_lines[i] = i * 7 % 5;
    lives_init(&l, NULL, 0);
    must(luacode_init(&code, r) && linework_init(&work, &code));
    l.lines = &work;
    feed_lines(&l, r);
    line_segments_settle(&work);
    must(linework_catch_up(&work) && lives_finish(&l));
    lives_free(&l);
    linework_free(&work);
    luacode_free(&code);
    mt_close(r);
}

/* ---- kernels of batches ---------------------------------------------------------------------- */

struct batch_kernels {
    struct summary summary;
    struct lockfull locks;
    struct faults faults;
};

static void walk_batch(struct batch_kernels *k)
{
    struct mt_batch batch;
    struct mt_error err;
    struct mt_reader *r = mt_open(s_path, 0, &err);

    while (r && mt_next_batch(r, &batch) == MT_MORE) {
        must(summary_feed(&k->summary, &batch, mt_count_stacks(r)));
        must(lockfull_feed_batch(&k->locks, &batch));
        must(faults_add(&k->faults, batch.events, batch.n_events));
    }
    mt_close(r);
}

static void batches(void)
{
    const struct lockfull_rules rules = {.gain = 2, .decay = 1};
    struct batch_kernels k;

    summary_init(&k.summary);
    must(lockfull_init(&k.locks, NULL, 0, rules) && faults_init(&k.faults));
    walk_batch(&k);
    summary_finish(&k.summary);
    summary_free(&k.summary);
    lockfull_free(&k.locks);
    faults_free(&k.faults);
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

struct checked {
    struct check check;
    struct walk walk;
};

/* Of some batches nothing is shown, as outside marks. */
static void feed_checked(void *k, struct mt_reader *r, const struct mt_event *events, size_t n)
{
    struct checked *c = k;
    const struct mt_event *shown = n % 3 ? walk_filter(&c->walk, events, n) : NULL;

    must(shown || n % 3 == 0);
    if (shown)
        walk_hide_blockless(&c->walk, n);
    must(check_feed(&c->check, ids_of(r), events, shown, n));
    must(c->check.live <= c->check.room && c->check.n_shown <= c->check.n_events);
}

static void check_of(const struct chosen *chosen)
{
    struct checked c;

    walk_init(&c.walk, chosen->bits, 8 * sizeof chosen->bits);
    check_init(&c.check);
    walk_over(feed_checked, &c, 0);
    check_free(&c.check);
    walk_free(&c.walk);
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
    must(lockstack_init(&l, r, true));
    while (mt_next(r, &events, &n) == MT_MORE)
        must(lockstack_feed(&l, events, events, n));
    lockstack_free(&l);
    mt_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chosen chosen = {.largest = 1};
    int fd = input_begin(data, size);

    totals();
    accesses();
    texts();
    lives_of(&chosen);
    lives_in_shards();
    lines_of();
    batches();
    fields_of(&chosen);
    check_of(&chosen);
    stack_locks();
    close(fd);
    return 0;
}
