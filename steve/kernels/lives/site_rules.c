/* site_rules.c - sums that the rules about sites need; see site_rules.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/site_rules.h"

#include "memtrace/memtrace.h"

void site_rules_init(struct site_rules *s, const struct site_rules_limits *limits, enum groups_key key)
{
    *s = (struct site_rules){.limits = *limits, .key = key, .width = 1};
}

void site_rules_free(struct site_rules *s)
{
    free(s->rows);
    keyed_rows_free(&s->of_keys);
}

/* The row of a key, which is made if there is none. NULL when out of memory. */
static struct site_rules_row *reach(struct site_rules *s, uint32_t key)
{
    size_t index;

    return keyed_rows_reach(&s->of_keys, key, &s->rows, sizeof *s->rows, &index) ? &s->rows[index] : NULL;
}

/* ---- parts of the run ----------------------------------------------------------------------- */

/* The part that begins at an operation, or the first one that begins after it. */
static size_t next_part(const struct site_rules *s, uint64_t operation)
{
    return (size_t)((operation + s->width - 1) / s->width);
}

/* Keep every second beginning of a part. */
static void halve(int64_t *changes)
{
    for (size_t i = 1; i <= SITE_RULES_PARTS; i++) {
        int64_t change = changes[i];

        changes[i] = 0;
        changes[(i + 1) / 2] += change;
    }
}

static void double_width(struct site_rules *s)
{
    for (size_t i = 0; i < s->of_keys.n; i++) {
        halve(s->rows[i].bytes);
        halve(s->rows[i].blocks);
    }
    for (size_t i = 0; i < SITE_RULES_PARTS; i++)
        s->collected[i] = i < SITE_RULES_PARTS / 2 ? s->collected[2 * i] + s->collected[2 * i + 1] : 0;
    s->width *= 2;
}

void site_rules_widen(struct site_rules *s, uint64_t width)
{
    while (s->width < width)
        double_width(s);
}

void site_rules_cover(struct site_rules *s, uint64_t operations)
{
    while (operations > SITE_RULES_PARTS * s->width)
        double_width(s);
}

/* Add what is alive at the beginnings of parts. */
static void add_alive(struct site_rules *s, struct site_rules_row *row, const struct life *life)
{
    site_rules_cover(s, life->died + life->freed);
    row->bytes[next_part(s, life->born)] += (int64_t)life->size;
    row->blocks[next_part(s, life->born)]++;
    if (!life->freed)
        return;
    row->bytes[next_part(s, life->died)] -= (int64_t)life->size;
    row->blocks[next_part(s, life->died)]--;
}

/* ---- lives ---------------------------------------------------------------------------------- */

static void add_sums(struct site_rules_sums *to, uint64_t blocks, uint64_t bytes, uint64_t accesses)
{
    to->blocks += blocks;
    to->bytes += bytes;
    to->accesses += accesses;
}

static bool is_brief(const struct site_rules_limits *limits, const struct life *life)
{
    return life->freed && (life->news == 0 || life->died - life->born <= limits->short_life);
}

static bool has_spare(const struct site_rules_limits *limits, const struct life *life)
{
    return life->extent > 0 && life->size >= limits->min_size &&
           (double)life->extent < (double)life->size * limits->capacity;
}

/* An object that a garbage collector frees. Parts of objects, such as the array of a table, may also be freed when the
 * object grows. */
static bool is_managed(const struct life *life)
{
    return life->type != MT_TYPE_UNKNOWN && life->type <= MT_TYPE_UDATA;
}

static void add_life(struct site_rules *s, struct site_rules_row *row, const struct life *life)
{
    uint64_t accesses = life->loads + life->stores + life->modifies;

    add_sums(&row->made, 1, life->size, accesses);
    if (is_brief(&s->limits, life))
        add_sums(&row->brief, 1, life->size, accesses);
    if (has_spare(&s->limits, life))
        add_sums(&row->spare, 1, life->size - life->extent, accesses);
    add_alive(s, row, life);
    if (s->last_new < life->born)
        s->last_new = life->born;
    row->managed += life->type != MT_TYPE_UNKNOWN;
    if (!life->freed)
        return;
    row->frees++;
    row->held += (double)(life->died_allocated - life->born_allocated);
    s->collected[life->died / s->width] += is_managed(life);
}

bool site_rules_add(struct site_rules *s, const struct life *lives, const uint8_t *keep, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct site_rules_row *row;

        if ((keep && !keep[i]) || lives[i].inherited)
            continue;
        row = reach(s, groups_key_of(s->key, &lives[i]));
        if (!row)
            return false;
        add_life(s, row, &lives[i]);
    }
    return true;
}

/* ---- shards --------------------------------------------------------------------------------- */

static void add_row(struct site_rules_row *to, const struct site_rules_row *row)
{
    add_sums(&to->made, row->made.blocks, row->made.bytes, row->made.accesses);
    add_sums(&to->brief, row->brief.blocks, row->brief.bytes, row->brief.accesses);
    add_sums(&to->spare, row->spare.blocks, row->spare.bytes, row->spare.accesses);
    to->managed += row->managed;
    to->frees += row->frees;
    to->held += row->held;
    for (size_t i = 0; i <= SITE_RULES_PARTS; i++) {
        to->bytes[i] += row->bytes[i];
        to->blocks[i] += row->blocks[i];
    }
}

bool site_rules_merge(struct site_rules *s, const uint32_t *keys, const struct site_rules_row *rows, size_t n,
                      const uint64_t *collected)
{
    for (size_t i = 0; i < n; i++) {
        struct site_rules_row *row = reach(s, keys[i]);

        if (!row)
            return false;
        add_row(row, &rows[i]);
    }
    for (size_t i = 0; i < SITE_RULES_PARTS; i++)
        s->collected[i] += collected[i];
    return true;
}
