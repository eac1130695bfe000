/* findings.c - which lives of blocks deserve a look; see findings.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/findings.h"

void findings_init(struct findings *f, const struct findings_limits *limits, enum groups_key key)
{
    memset(f, 0, sizeof *f);
    f->limits = *limits;
    f->key = key;
}

void findings_free(struct findings *f)
{
    free(f->rows);
    free(f->variances);
    keyed_rows_free(&f->of_keys);
}

/* The rules about a life that has accesses and is long enough for shares of it to mean something. */
static unsigned of_old(const struct findings_limits *limits, const struct life *life, double length,
                       bool unread)
{
    bool early = (double)(life->last_use - life->born) <= length * limits->early,
         late = (double)(life->first_use - life->born) > length * limits->late,
         idle = (double)(life->died - life->last_use) > length * limits->idle,
         once = unread && life->bytes_written <= life->size && early;

    return (unsigned)once << FINDINGS_WRITTEN_ONCE | (unsigned)late << FINDINGS_LATE_FIRST_USE |
           (unsigned)idle << FINDINGS_IDLE_TAIL;
}

/* The rules about a life that has accesses. */
static unsigned of_touched(const struct findings_limits *limits, const struct life *life)
{
    uint64_t length = life->died - life->born;
    bool unread = life->loads + life->modifies == 0, unwritten = life->stores + life->modifies == 0,
         low =
             life->size >= limits->min_size && (double)life->used < (double)life->size * limits->utilisation;

    return (unsigned)unread << FINDINGS_NEVER_READ | (unsigned)unwritten << FINDINGS_NEVER_WRITTEN |
           (unsigned)low << FINDINGS_LOW_UTILISATION |
           (length >= limits->min_life ? of_old(limits, life, (double)length, unread) : 0);
}

unsigned findings_of(const struct findings_limits *limits, const struct life *life)
{
    bool touched = life->loads + life->stores + life->modifies > 0,
         brief = life->freed && life->died - life->born <= limits->short_life,
         chain = life->resizes >= limits->chain;

    if (life->inherited)
        return 0; /* it may have been used before the trace began */
    return (touched ? of_touched(limits, life) : 1u << FINDINGS_NEVER_TOUCHED) |
           (unsigned)brief << FINDINGS_SHORT_LIVED | (unsigned)chain << FINDINGS_RESIZE_CHAIN |
           (unsigned)!life->freed << FINDINGS_NEVER_FREED;
}

/* The row of a key, which is made if there is none. NULL when out of memory. */
static inline struct findings_row *reach(struct findings *f, uint32_t key)
{
    size_t index;

    return keyed_rows_reach(&f->of_keys, key, &f->rows, sizeof *f->rows, &index) ? &f->rows[index] : NULL;
}

static void add(struct findings_row *row, unsigned rules, const struct life *life)
{
    for (; rules; rules &= rules - 1)
        finding_add(&row->of[__builtin_ctz(rules)], life);
}

/* Add the variances of a life of a sample. row: the index of its row. False when out of memory. */
static bool vary(struct findings *f, size_t row, unsigned rules, const struct life *life)
{
    if (!array_grow(&f->variances, &f->variances_room, row + 1, sizeof *f->variances))
        return false;
    for (; rules; rules &= rules - 1)
        finding_vary(&f->variances[row].of[__builtin_ctz(rules)], life);
    return true;
}

bool findings_add(struct findings *f, const struct life *lives, const uint8_t *keep, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct findings_row *row;
        unsigned rules;

        if (keep && !keep[i])
            continue;
        row = reach(f, groups_key_of(f->key, &lives[i]));
        if (!row)
            return false;
        f->bytes += life_scaled(&lives[i], lives[i].size);
        rules = findings_of(&f->limits, &lives[i]);
        add(row, rules, &lives[i]);
        if (lives[i].weight != 0 && !vary(f, (size_t)(row - f->rows), rules, &lives[i]))
            return false;
    }
    return true;
}

bool findings_merge(struct findings *f, const uint32_t *keys, const struct findings_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct findings_row *row = reach(f, keys[i]);

        if (!row)
            return false;
        for (unsigned rule = 0; rule < FINDINGS_RULES; rule++)
            finding_merge(&row->of[rule], &rows[i].of[rule]);
    }
    return true;
}
