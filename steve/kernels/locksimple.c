/* locksimple.c - coarse locks; see locksimple.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/locksimple.h"

#include "steve/kernels/grow.h"

bool locksimple_init(struct locksimple *s, bool compat)
{
    memset(s, 0, sizeof *s);
    s->compat = compat;
    return livemap_init(&s->live);
}

void locksimple_free(struct locksimple *s)
{
    livemap_free(&s->live);
    free(s->lives);
    free(s->long_ones);
}

/* Is this at least half of the accesses seen so far? */
static bool is_long(const struct locksimple *s, uint64_t span)
{
    return span >= s->accesses - span;
}

/* A life ends: keep it if it may turn out to be long. */
static bool end_life(struct locksimple *s, uint32_t i)
{
    struct locksimple_life life = s->lives[i];
    uint64_t span = s->accesses - life.span;

    if (s->compat && !life.touched)
        span++;
    if (span <= s->accesses && !is_long(s, span))
        return true;
    if (!grow(&s->long_ones, &s->long_room, s->n_long + 1, sizeof life))
        return false;
    life.span = span;
    s->long_ones[s->n_long++] = life;
    return true;
}

static bool block_new(struct locksimple *s, uint64_t handle)
{
    uint32_t old = livemap_remove(&s->live, handle);
    uint32_t i;

    if (old != LIVEMAP_NONE && !end_life(s, old))
        return false;
    i = livemap_add(&s->live, handle);
    if (i == LIVEMAP_NONE || !grow(&s->lives, &s->room, (size_t)i + 1, sizeof *s->lives))
        return false;
    s->lives[i] = (struct locksimple_life){.ordinal = s->news++, .span = s->accesses};
    return true;
}

static bool block_free(struct locksimple *s, uint64_t handle)
{
    uint32_t i = livemap_remove(&s->live, handle);

    return i == LIVEMAP_NONE || end_life(s, i);
}

static void block_access(struct locksimple *s, uint64_t handle)
{
    uint32_t i = livemap_find(&s->live, handle);

    if (i == LIVEMAP_NONE) {
        s->unmatched++;
        return;
    }
    s->lives[i].touched = true;
    s->accesses++;
}

bool locksimple_feed(struct locksimple *s, const struct op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].code == OP_NEW && !block_new(s, ops[i].handle))
            return false;
        if (ops[i].code == OP_FREE && !block_free(s, ops[i].handle))
            return false;
        if (ops[i].code != OP_NEW && ops[i].code != OP_FREE)
            block_access(s, ops[i].handle);
    }
    return true;
}

static int by_ordinal(const void *a, const void *b)
{
    const struct locksimple_life *x = a, *y = b;

    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

bool locksimple_finish(struct locksimple *s)
{
    size_t kept = 0;

    for (size_t i = 0; i <= s->live.mask; i++)
        if (s->live.entries[i].key != 0 && !end_life(s, s->live.entries[i].index))
            return false;
    for (size_t i = 0; i < s->n_long; i++)
        if (s->long_ones[i].span > s->accesses || is_long(s, s->long_ones[i].span))
            s->long_ones[kept++] = s->long_ones[i];
    s->n_long = kept;
    if (kept)
        qsort(s->long_ones, kept, sizeof *s->long_ones, by_ordinal);
    return true;
}

static bool stays_unlocked(struct locksimple_writer *w)
{
    uint64_t ordinal = w->news++;

    if (w->next_long == w->plan->n_long || w->plan->long_ones[w->next_long].ordinal != ordinal)
        return false;
    w->next_long++;
    return true;
}

size_t locksimple_write(struct locksimple_writer *w, const struct op *ops, size_t n, struct op *out)
{
    struct op *start = out;

    for (size_t i = 0; i < n; i++) {
        if (ops[i].code != OP_NEW && ops[i].code != OP_FREE)
            continue;
        *out = ops[i];
        out++->addr = 0;
        if (ops[i].code == OP_NEW && !stays_unlocked(w)) {
            *out++ = (struct op){.handle = ops[i].handle, .code = OP_LOCK};
            w->locks++;
        }
    }
    return (size_t)(out - start);
}
