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
    for (unsigned rule = 0; rule < FINDINGS_RULES; rule++) {
        free(f->of[rule].rows);
        free(f->of[rule].variances);
        keyed_rows_free(&f->of[rule].of_keys);
    }
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

    /* it may have been used before the trace began; its pieces are blocks of their own, with the accesses */
    if (life->inherited || life->container)
        return 0;
    return (touched ? of_touched(limits, life) : 1u << FINDINGS_NEVER_TOUCHED) |
           (unsigned)brief << FINDINGS_SHORT_LIVED | (unsigned)chain << FINDINGS_RESIZE_CHAIN |
           (unsigned)!life->freed << FINDINGS_NEVER_FREED;
}

/* The row of a key, which is made if there is none. NULL when out of memory. */
static inline struct finding *reach(struct findings_of_rule *r, uint32_t key)
{
    size_t index;

    return keyed_rows_reach(&r->of_keys, key, &r->rows, sizeof *r->rows, &index) ? &r->rows[index] : NULL;
}

/* Add the variances of a life of a sample. row: the index of its row. False when out of memory. */
static bool vary(struct findings_of_rule *r, size_t row, const struct life *life)
{
    if (!array_grow(&r->variances, &r->variances_room, row + 1, sizeof *r->variances))
        return false;
    finding_vary(&r->variances[row], life);
    return true;
}

/* Add a life that a rule finds. False when out of memory. */
static bool add(struct findings_of_rule *r, uint32_t key, const struct life *life)
{
    struct finding *row = reach(r, key);

    if (!row)
        return false;
    finding_add(row, life);
    return life->weight == 0 || vary(r, (size_t)(row - r->rows), life);
}

bool findings_add(struct findings *f, const struct life *lives, const uint8_t *keep, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (keep && !keep[i])
            continue;
        f->bytes += life_scaled(&lives[i], lives[i].size);
        for (unsigned rules = findings_of(&f->limits, &lives[i]); rules; rules &= rules - 1)
            if (!add(&f->of[__builtin_ctz(rules)], groups_key_of(f->key, &lives[i]), &lives[i]))
                return false;
    }
    return true;
}

bool findings_merge(struct findings *f, enum findings_rule rule, const uint32_t *keys,
                    const struct finding *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct finding *row = reach(&f->of[rule], keys[i]);

        if (!row)
            return false;
        finding_merge(row, &rows[i]);
    }
    return true;
}
