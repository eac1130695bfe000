/* traceview.c - what the end-to-end cases look at a trace with: counts and events, straight from libmemtrace.
 *
 * The cases check the recorder, so they read traces through the format library alone, not through steve,
 * which has tests of its own; a fault in steve's counting cannot hide one in the recorder.
 *
 * traceview ACTION FILE [NUMBER...]; the actions:
 *
 * - counts: totals of the whole trace, `name value` lines
 * - between B E: the same of LuaJIT's heaps, between the New of B and the New of E bytes
 * - events: heap events, one per line: KIND handle addr size old_size how heap thread
 * - blocks S...: accesses to the first block of each of the sizes S: LETTER block addr offset size, where
 * block is the index of S
 * - tally S: how many News, stores, loads, modifies and Frees of blocks of size S, `name value` lines
 * - sites: LETTER ip size
 * - validate: breaks of the rules every trace must keep; exit status 1 if there is one, else the counts
 *
 * Exit status 1 with one line on stderr if the file cannot be read to its end; it does not salvage.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memtrace/memtrace.h"

typedef void each_fn(const struct mt_reader *r, const struct mt_event *e, void *ctx);

static const char *s_path;

static int complain(const struct mt_error *e)
{
    fprintf(stderr, "traceview: %s: offset %" PRIu64 ": %s\n", s_path, e->offset, e->text);
    return 1;
}

static int for_each(struct mt_reader *r, each_fn *each, void *ctx)
{
    const struct mt_event *e;
    size_t n;
    int rc;
    while ((rc = mt_next(r, &e, &n)) == MT_MORE)
        for (size_t i = 0; i < n; i++)
            each(r, &e[i], ctx);
    return rc == MT_END ? 0 : complain(mt_reader_error(r));
}

/* -- counts ----------------------------------------------------------------------------------- */

struct counts {
    uint64_t events[MT_KINDS];
    uint64_t new_bytes, free_bytes, resize_bytes, live_bytes, live_blocks, peak_bytes;
};

static void count(struct counts *c, const struct mt_event *e)
{
    c->events[e->kind]++;
    if (e->kind == MT_NEW) {
        c->new_bytes += e->size;
        c->live_bytes += e->size;
        c->live_blocks++;
    } else if (e->kind == MT_FREE) {
        c->free_bytes += e->size;
        c->live_bytes -= e->size;
        c->live_blocks--;
    } else if (e->kind == MT_RESIZE) {
        c->resize_bytes += e->size;
        c->live_bytes += e->size - e->old_size;
    }
    if (c->live_bytes > c->peak_bytes)
        c->peak_bytes = c->live_bytes;
}

static void count_all(const struct mt_reader *r, const struct mt_event *e, void *ctx)
{
    (void)r;
    count(ctx, e);
}

static void print_counts(const struct counts *c)
{
    for (int k = 0; k < MT_KINDS; k++)
        printf("%s %" PRIu64 "\n", mt_kind_name(k), c->events[k]);
    printf("new_bytes %" PRIu64 "\nfree_bytes %" PRIu64 "\nresize_bytes %" PRIu64 "\n", c->new_bytes,
           c->free_bytes, c->resize_bytes);
    printf("live_bytes %" PRIu64 "\nlive_blocks %" PRIu64 "\npeak_bytes %" PRIu64 "\n", c->live_bytes,
           c->live_blocks, c->peak_bytes);
}

static void print_all_counts(struct mt_reader *r, const struct counts *c)
{
    struct mt_reader_stats s;
    mt_reader_stats(r, &s);
    print_counts(c);
    printf("ending %s\ndropped %" PRIu64 "\nforeign %" PRIu64 "\ninstructions %" PRIu64 "\n",
           mt_ending_name(s.ending), s.totals.dropped, s.totals.foreign, s.instructions);
    for (int k = 0; k < MT_KINDS; k++)
        if (s.totals.events[k] != c->events[k])
            printf("total_differs %s %" PRIu64 "\n", mt_kind_name(k), s.totals.events[k]);
}

static int counts(struct mt_reader *r)
{
    struct counts c = {0};
    if (for_each(r, count_all, &c) != 0)
        return 1;
    print_all_counts(r, &c);
    return 0;
}

/* -- between two sentinels -------------------------------------------------------------------- */

/* A userdata's header is smaller than this. */
enum { HEADER_ROOM = 64 };

struct between {
    struct counts c;
    uint64_t begin, end; /* sizes asked for */
    int state;           /* 0 before, 1 between, 2 after */
};

static int is_sentinel(const struct mt_event *e, uint64_t size)
{
    return e->kind == MT_NEW && e->size >= size && e->size < size + HEADER_ROOM;
}

static void restart(struct counts *c)
{
    uint64_t bytes = c->live_bytes, blocks = c->live_blocks;
    *c = (struct counts){.live_bytes = bytes, .live_blocks = blocks};
}

static void count_between(const struct mt_reader *r, const struct mt_event *e, void *ctx)
{
    struct between *b = ctx;
    if (b->state == 2 || e->kind > MT_RESIZE || mt_heap(r, e->heap)->kind != MT_HEAP_LUA)
        return;
    if (b->state == 1 && is_sentinel(e, b->end)) {
        b->state = 2;
        return;
    }
    count(&b->c, e);
    if (b->state == 0 && is_sentinel(e, b->begin)) {
        b->state = 1;
        restart(&b->c);
    }
}

static int between(struct mt_reader *r, char **sizes)
{
    struct between b = {.begin = strtoull(sizes[0], NULL, 10), .end = strtoull(sizes[1], NULL, 10)};
    if (for_each(r, count_between, &b) != 0)
        return 1;
    if (b.state != 2) {
        fprintf(stderr, "traceview: %s: the %s sentinel is not there\n", s_path, b.state ? "end" : "begin");
        return 1;
    }
    print_counts(&b.c);
    return 0;
}

/* -- events ----------------------------------------------------------------------------------- */

static void print_event(const struct mt_reader *r, const struct mt_event *e, void *ctx)
{
    (void)ctx;
    if (e->kind > MT_RESIZE) {
        if (e->kind > MT_MODIFY && e->kind < MT_TYPE)
            printf("%s %u\n", mt_kind_name(e->kind), e->ref);
        return;
    }
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s %u\n", mt_kind_name(e->kind), e->handle,
           e->addr, e->size, e->kind == MT_RESIZE ? e->old_size : 0,
           e->kind == MT_NEW ? mt_how_name(e->how) : "-", mt_heap_kind_name(mt_heap(r, e->heap)->kind),
           e->thread);
}

/* -- accesses to chosen blocks ---------------------------------------------------------------- */

enum { MAX_CHOSEN = 16 };

struct chosen {
    uint64_t size[MAX_CHOSEN], handle[MAX_CHOSEN];
    int n;
};

static void choose(struct chosen *c, const struct mt_event *e)
{
    for (int i = 0; i < c->n; i++)
        if (e->size == c->size[i] && c->handle[i] == MT_NO_HANDLE)
            c->handle[i] = e->handle;
}

static void print_chosen(const struct mt_reader *r, const struct mt_event *e, void *ctx)
{
    struct chosen *c = ctx;
    (void)r;
    if (e->kind == MT_NEW)
        choose(c, e);
    if (e->kind < MT_LOAD || e->kind > MT_MODIFY)
        return;
    for (int i = 0; i < c->n; i++)
        if (e->handle == c->handle[i])
            printf("%c %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", mt_kind_letter(e->kind), i, e->addr,
                   e->offset, e->size);
}

static int blocks(struct mt_reader *r, char **sizes, int n)
{
    struct chosen c = {.n = n < MAX_CHOSEN ? n : MAX_CHOSEN};
    for (int i = 0; i < c.n; i++) {
        c.size[i] = strtoull(sizes[i], NULL, 10);
        c.handle[i] = MT_NO_HANDLE;
    }
    return for_each(r, print_chosen, &c);
}

/* -- all blocks of one size ------------------------------------------------------------------- */

struct tally {
    uint64_t size, events[MT_KINDS];
    uint64_t *slot_size; /* of the live block in each slot */
    size_t room;
};

static void tally_event(const struct mt_reader *r, const struct mt_event *e, void *ctx)
{
    struct tally *t = ctx;
    (void)r;
    if (e->kind > MT_MODIFY)
        return;
    if (e->slot >= t->room) {
        t->room = (size_t)e->slot * 2 + 64;
        t->slot_size = realloc(t->slot_size, t->room * sizeof *t->slot_size);
        if (t->slot_size == NULL)
            abort();
    }
    if (e->kind == MT_NEW || e->kind == MT_RESIZE)
        t->slot_size[e->slot] = e->size;
    t->events[e->kind] += t->slot_size[e->slot] == t->size;
}

static int tally(struct mt_reader *r, const char *size)
{
    static const enum mt_kind order[] = {MT_NEW, MT_STORE, MT_LOAD, MT_MODIFY, MT_FREE};
    struct tally t = {.size = strtoull(size, NULL, 10)};
    int rc = for_each(r, tally_event, &t);
    free(t.slot_size);
    for (size_t i = 0; rc == 0 && i < sizeof order / sizeof *order; i++)
        printf("%s %" PRIu64 "\n", mt_kind_name(order[i]), t.events[order[i]]);
    return rc;
}

/* -- sites ------------------------------------------------------------------------------------ */

static void ignore(const struct mt_reader *r, const struct mt_event *e, void *ctx)
{
    (void)r, (void)e, (void)ctx;
}

static int sites(struct mt_reader *r)
{
    if (for_each(r, ignore, NULL) != 0)
        return 1;
    for (uint32_t i = 1; i < mt_count_sites(r); i++) {
        const struct mt_site *s = mt_site(r, i);
        printf("%c %" PRIu64 " %u\n", mt_kind_letter(s->kind), s->ip, s->size);
    }
    return 0;
}

/* -- rules ------------------------------------------------------------------------------------ */

struct live {
    uint64_t addr, size, handle;
    int used;
};
struct rules {
    struct live *slot; /* by event's slot number */
    size_t room;
    uint64_t next_handle, time, ordinal, broken;
    struct counts counts;
};

static void broken(struct rules *u, const struct mt_event *e, const char *what)
{
    if (u->broken++ < 10)
        printf("event %" PRIu64 " (%s): %s\n", u->ordinal, mt_kind_name(e->kind), what);
}

static struct live *slot_of(struct rules *u, uint32_t slot)
{
    if (slot >= u->room) {
        size_t room = (size_t)slot * 2 + 64;
        u->slot = realloc(u->slot, room * sizeof *u->slot);
        if (u->slot == NULL)
            abort();
        memset(u->slot + u->room, 0, (room - u->room) * sizeof *u->slot);
        u->room = room;
    }
    return &u->slot[slot];
}

static void rule_new(struct rules *u, const struct mt_event *e, struct live *l)
{
    if (l->used)
        broken(u, e, "slot is in use");
    if (e->handle != u->next_handle++)
        broken(u, e, "handle out of sequence");
    *l = (struct live){.addr = e->addr, .size = e->size, .handle = e->handle, .used = 1};
}

static void rule_old(struct rules *u, const struct mt_event *e, struct live *l)
{
    if (!l->used || l->handle != e->handle)
        broken(u, e, "block is not live");
    else if (e->kind == MT_FREE && (l->addr != e->addr || l->size != e->size))
        broken(u, e, "not the block's address and size");
    else if (e->kind == MT_RESIZE && (l->addr != e->old_addr || l->size != e->old_size))
        broken(u, e, "not the block's old address and size");
    l->used = e->kind == MT_RESIZE;
    l->addr = e->addr;
    l->size = e->size;
}

static void rule_access(struct rules *u, const struct mt_event *e, const struct live *l)
{
    if (!l->used || l->handle != e->handle)
        broken(u, e, "access to no live block");
    else if (e->offset >= l->size || e->addr != l->addr + e->offset)
        broken(u, e, "access outside its block");
    if (e->size == 0)
        broken(u, e, "access of no bytes");
}

static void rule(const struct mt_reader *r, const struct mt_event *e, void *ctx)
{
    struct rules *u = ctx;
    count(&u->counts, e);
    if (e->time < u->time)
        broken(u, e, "time goes back");
    u->time = e->time;
    if (e->kind <= MT_RESIZE && mt_stack(r, e->ref) == NULL)
        broken(u, e, "stack is not defined");
    if (e->kind == MT_NEW)
        rule_new(u, e, slot_of(u, e->slot));
    else if (e->kind <= MT_RESIZE)
        rule_old(u, e, slot_of(u, e->slot));
    else if (e->kind <= MT_MODIFY)
        rule_access(u, e, slot_of(u, e->slot));
    u->ordinal++;
}

static int by_address(const void *a, const void *b)
{
    uint64_t x = ((const struct live *)a)->addr, y = ((const struct live *)b)->addr;
    return (x > y) - (x < y);
}

/* Blocks live at the end must not overlap. */
static void rule_overlap(struct rules *u)
{
    size_t n = 0;
    for (size_t i = 0; i < u->room; i++)
        if (u->slot[i].used)
            u->slot[n++] = u->slot[i];
    qsort(u->slot, n, sizeof *u->slot, by_address);
    for (size_t i = 1; i < n; i++)
        if (u->slot[i - 1].addr + u->slot[i - 1].size > u->slot[i].addr && u->broken++ < 10)
            printf("blocks %" PRIu64 " and %" PRIu64 " overlap\n", u->slot[i - 1].handle, u->slot[i].handle);
}

static int validate(struct mt_reader *r)
{
    struct rules u = {0};
    int rc = for_each(r, rule, &u);
    rule_overlap(&u);
    free(u.slot);
    if (u.broken > 0)
        printf("%" PRIu64 " rules broken\n", u.broken);
    else if (rc == 0)
        print_all_counts(r, &u.counts);
    return rc != 0 || u.broken > 0;
}

/* --------------------------------------------------------------------------------------------- */

static int act(const char *what, struct mt_reader *r, char **args, int n)
{
    if (strcmp(what, "counts") == 0)
        return counts(r);
    if (strcmp(what, "between") == 0 && n == 2)
        return between(r, args);
    if (strcmp(what, "events") == 0)
        return for_each(r, print_event, NULL);
    if (strcmp(what, "blocks") == 0)
        return blocks(r, args, n);
    if (strcmp(what, "tally") == 0 && n == 1)
        return tally(r, args[0]);
    if (strcmp(what, "sites") == 0)
        return sites(r);
    if (strcmp(what, "validate") == 0)
        return validate(r);
    fprintf(stderr, "traceview: unknown action '%s'\n", what);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: traceview counts|between|events|blocks|tally|sites|validate FILE [NUMBER...]\n",
              stderr);
        return 2;
    }
    struct mt_error err;
    s_path = argv[2];
    struct mt_reader *r = mt_open(argv[2], MT_OPEN_DEFAULT, &err);
    if (r == NULL)
        return complain(&err);
    int rc = act(argv[1], r, argv + 3, argc - 3);
    mt_close(r);
    return rc;
}
