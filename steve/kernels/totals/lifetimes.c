/* lifetimes.c - own and other accesses of every block; see lifetimes.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/totals/lifetimes.h"

#include "memtrace/base/array.h"

#include <float.h>

bool lifetimes_init(struct lifetimes *l)
{
    memset(l, 0, sizeof *l);
    return handle_map_init(&l->live);
}

void lifetimes_free(struct lifetimes *l)
{
    handle_map_free(&l->live);
    free(l->ordinal);
    free(l->blocks);
}

static void end_life(struct lifetimes *l, uint32_t i)
{
    struct lifetime *block = &l->blocks[l->ordinal[i]];

    block->other = l->accesses - block->other - block->own;
}

static void block_free(struct lifetimes *l, uint64_t handle)
{
    uint32_t i = handle_map_remove(&l->live, handle);

    if (i != HANDLE_MAP_NONE)
        end_life(l, i);
}

static bool block_new(struct lifetimes *l, uint64_t handle)
{
    uint32_t i;

    block_free(l, handle);
    i = handle_map_add(&l->live, handle);
    if (i == HANDLE_MAP_NONE || !array_grow(&l->ordinal, &l->room, (size_t)i + 1, sizeof *l->ordinal) ||
        !array_grow(&l->blocks, &l->blocks_room, l->n + 1, sizeof *l->blocks))
        return false;
    l->ordinal[i] = l->n;
    l->blocks[l->n++] = (struct lifetime){.handle = handle, .other = l->accesses};
    return true;
}

static void block_access(struct lifetimes *l, uint64_t handle)
{
    uint32_t i = handle_map_find(&l->live, handle);

    if (i == HANDLE_MAP_NONE) {
        l->unmatched++;
        return;
    }
    l->blocks[l->ordinal[i]].own++;
    l->accesses++;
}

bool lifetimes_feed(struct lifetimes *l, const struct op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].code == OP_NEW && !block_new(l, ops[i].handle))
            return false;
        if (ops[i].code == OP_FREE)
            block_free(l, ops[i].handle);
        if (ops[i].code != OP_NEW && ops[i].code != OP_FREE && ops[i].code != OP_RESIZE)
            block_access(l, ops[i].handle);
    }
    return true;
}

void lifetimes_finish(struct lifetimes *l)
{
    for (size_t i = 0; i <= l->live.mask; i++)
        if (l->live.entries[i].key != 0)
            end_life(l, l->live.entries[i].index);
}

/* ---- text ----------------------------------------------------------------------------------- */

_Static_assert(LDBL_MANT_DIG >= DBL_MANT_DIG + 7, "a hundred times a double is not exact");

#define PUT(out, text) textout_put_string(out, text, sizeof text - 1)

/* A hundred times a value, to the nearest number, halves to even: of what the double is exactly. */
static uint64_t hundredths_of(double value)
{
    const long double exact = (long double)value * 100;
    const uint64_t below = (uint64_t)exact;
    const long double rest = exact - below;

    return below + (rest > 0.5L || (rest == 0.5L && below % 2));
}

static void put_two_decimals(struct textout *out, double value)
{
    const uint64_t hundredths = hundredths_of(value);

    textout_put_number(out, hundredths / 100);
    textout_put_char(out, '.');
    textout_put_char(out, (char)('0' + hundredths / 10 % 10));
    textout_put_char(out, (char)('0' + hundredths % 10));
}

static void put_percent(struct textout *out, double share)
{
    textout_put_number(out, (uint64_t)(share * 100));
    textout_put_char(out, '%');
}

void lifetext_pairs(struct textout *out, const struct lifetime *blocks, size_t n, bool ahead)
{
    for (size_t i = 0; i < n; i++) {
        textout_reserve(out);
        if (ahead || i)
            PUT(out, ", ");
        textout_put_char(out, '"');
        textout_put_number(out, blocks[i].handle);
        PUT(out, "\": [");
        textout_put_number(out, blocks[i].own);
        PUT(out, ", ");
        textout_put_number(out, blocks[i].other);
        textout_put_char(out, ']');
    }
}

static void put_line(const struct lifetext *t, const struct lifetime *b)
{
    const uint64_t at_least_one = b->own ? b->own : 1, own = t->compat ? at_least_one : b->own;

    PUT(t->out, "# ");
    textout_put_number(t->out, b->handle);
    PUT(t->out, ": ");
    if (t->kind == LIFETEXT_MICRO)
        put_two_decimals(t->out, (double)b->other / (double)at_least_one);
    else
        put_percent(t->out, (double)(own + b->other) / (double)(t->accesses ? t->accesses : 1));
    PUT(t->out, " (own = ");
    textout_put_number(t->out, own);
    PUT(t->out, ", other = ");
    textout_put_number(t->out, b->other);
    PUT(t->out, ")\n");
}

void lifetext_lines(const struct lifetext *t, const int64_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        textout_reserve(t->out);
        put_line(t, &t->blocks[order[i]]);
    }
}
