/* lifetime_text.c - lines about lifetimes; see lifetime_text.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/totals/lifetime_text.h"

#include <float.h>

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
