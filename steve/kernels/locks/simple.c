/* simple.c - coarse locks; see simple.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/locks/simple.h"

#include "memtrace/base/array.h"

bool locksimple_init(struct locksimple *s, uint64_t threshold, bool compat)
{
    memset(s, 0, sizeof *s);
    s->threshold = threshold;
    s->compat = compat;
    return handle_map_init(&s->live);
}

void locksimple_free(struct locksimple *s)
{
    handle_map_free(&s->live);
    free(s->lives);
    free(s->long_ones);
}

/* Not an access. */
static bool is_heap(uint32_t code)
{
    return code == OP_NEW || code == OP_FREE || code == OP_RESIZE;
}

/* Is this at least the threshold's share of the accesses seen so far? */
static bool is_long(const struct locksimple *s, uint64_t span)
{
    return span * 1000 >= s->threshold * s->accesses;
}

/* A life ends: keep it if it may turn out to be long. */
static bool end_life(struct locksimple *s, uint32_t i)
{
    struct locksimple_life life = s->lives[i];
    uint64_t span = s->accesses - life.span;

    if (s->compat && !life.touched)
        span++;
    if (!is_long(s, span))
        return true;
    if (!array_grow(&s->long_ones, &s->long_room, s->n_long + 1, sizeof life))
        return false;
    life.span = span;
    s->long_ones[s->n_long++] = life;
    return true;
}

static bool block_new(struct locksimple *s, uint64_t handle)
{
    uint32_t old = handle_map_remove(&s->live, handle);
    uint32_t i;

    if (old != HANDLE_MAP_NONE && !end_life(s, old))
        return false;
    i = handle_map_add(&s->live, handle);
    if (i == HANDLE_MAP_NONE || !array_grow(&s->lives, &s->room, (size_t)i + 1, sizeof *s->lives))
        return false;
    s->lives[i] = (struct locksimple_life){.ordinal = s->news++, .span = s->accesses};
    return true;
}

static bool block_free(struct locksimple *s, uint64_t handle)
{
    uint32_t i = handle_map_remove(&s->live, handle);

    return i == HANDLE_MAP_NONE || end_life(s, i);
}

static void block_access(struct locksimple *s, uint64_t handle)
{
    uint32_t i = handle_map_find(&s->live, handle);

    if (i == HANDLE_MAP_NONE) {
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
        if (!is_heap(ops[i].code))
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
        if (is_long(s, s->long_ones[i].span))
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

bool locksimple_writer_init(struct locksimple_writer *w, const struct locksimple *plan,
                            bool unlock_before_free)
{
    memset(w, 0, sizeof *w);
    w->plan = plan;
    w->unlock_before_free = unlock_before_free;
    return handle_map_init(&w->locked);
}

void locksimple_writer_free(struct locksimple_writer *w)
{
    handle_map_free(&w->locked);
}

/* A lock or unlock of a block at an operation on it. */
static struct op *op_put(struct op *out, const struct op *at, enum ops_code code)
{
    *out = (struct op){.handle = at->handle, .code = code, .thread = at->thread, .time = at->time};
    return out + 1;
}

/* What follows an N. */
static struct op *lock_new(struct locksimple_writer *w, const struct op *op, struct op *out)
{
    if (w->unlock_before_free)
        handle_map_remove(&w->locked, op->handle);
    if (stays_unlocked(w))
        return out;
    if (w->unlock_before_free && handle_map_add(&w->locked, op->handle) == HANDLE_MAP_NONE)
        w->out_of_memory = true;
    w->locks++;
    return op_put(out, op, OP_LOCK);
}

/* What a heap operation becomes. */
static struct op *write_heap(struct locksimple_writer *w, const struct op *op, struct op *out)
{
    if (op->code == OP_FREE && handle_map_remove(&w->locked, op->handle) != HANDLE_MAP_NONE)
        out = op_put(out, op, OP_UNLOCK);
    *out = *op;
    out++->addr = 0;
    return op->code == OP_NEW ? lock_new(w, op, out) : out;
}

size_t locksimple_write(struct locksimple_writer *w, const struct op *ops, size_t n, struct op *out,
                        uint64_t *at)
{
    struct op *start = out;

    for (size_t i = 0; i < n; i++, w->index++) {
        size_t before = (size_t)(out - start);

        if (!is_heap(ops[i].code))
            continue;
        out = write_heap(w, &ops[i], out);
        for (size_t k = before; k < (size_t)(out - start); k++)
            at[k] = w->index;
    }
    return (size_t)(out - start);
}
