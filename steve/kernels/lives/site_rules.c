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
    free(s->kept);
    free(s->changes);
    keyed_rows_free(&s->of_keys);
}

/* What is kept of a key, which is made if there is none. NULL when out of memory. */
static struct site_rules_kept *reach(struct site_rules *s, uint32_t key)
{
    size_t index;

    return keyed_rows_reach(&s->of_keys, key, &s->kept, sizeof *s->kept, &index) ? &s->kept[index] : NULL;
}

/* The changes of a key, which are made if there are none. NULL when out of memory. */
static struct site_rules_changes *changes_of(struct site_rules *s, struct site_rules_kept *kept)
{
    if (kept->changes)
        return &s->changes[kept->changes - 1];
    if (!array_reserve(&s->changes, &s->changes_room, s->n_changes + 1, sizeof *s->changes))
        return NULL;
    s->changes[s->n_changes] = (struct site_rules_changes){0};
    kept->changes = ++s->n_changes;
    return &s->changes[s->n_changes - 1];
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

static struct site_rules_part sum_of(const struct site_rules_part *one, const struct site_rules_part *other)
{
    return (struct site_rules_part){one->collected + other->collected, one->news + other->news,
                                    one->requested + other->requested, one->kept + other->kept};
}

static void double_width(struct site_rules *s)
{
    for (size_t i = 0; i < s->n_changes; i++) {
        halve(s->changes[i].bytes);
        halve(s->changes[i].blocks);
    }
    for (size_t i = 0; i < SITE_RULES_PARTS; i++)
        s->parts[i] = i < SITE_RULES_PARTS / 2 ? sum_of(&s->parts[2 * i], &s->parts[2 * i + 1])
                                               : (struct site_rules_part){0};
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

/* Add what is alive at the beginnings of parts. False when out of memory. */
static bool add_alive(struct site_rules *s, struct site_rules_kept *kept, const struct life *life)
{
    size_t from, to = SITE_RULES_PARTS + 1;
    const int64_t bytes = life->container ? 0 : (int64_t)life->size;
    struct site_rules_changes *changes;

    site_rules_cover(s, life->died + life->freed);
    if (life->type == MT_TYPE_STRING_TABLE)
        return true;
    from = next_part(s, life->born);
    if (life->freed)
        to = next_part(s, life->died);
    if (from == to)
        return true;
    changes = changes_of(s, kept);
    if (!changes)
        return false;
    changes->bytes[from] += bytes;
    changes->blocks[from]++;
    if (life->freed) {
        changes->bytes[to] -= bytes;
        changes->blocks[to]--;
    }
    return true;
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
    return life->freed && !life->container &&
           (life->news == 0 || life->died - life->born <= limits->short_life);
}

static bool has_spare(const struct site_rules_limits *limits, const struct life *life)
{
    return life->extent > 0 && !life->container && life->size >= limits->min_size &&
           (double)life->extent < (double)life->size * limits->capacity;
}

/* An object that a garbage collector frees. Parts of objects, such as the array of a table, may also be freed when the
 * object grows. */
static bool is_managed(const struct life *life)
{
    return life->type != MT_TYPE_UNKNOWN && life->type <= MT_TYPE_UDATA;
}

/* Bytes of a block in the heap of a garbage collector that are judged, else 0. */
static uint64_t requested_of(const struct life *life)
{
    return life->type == MT_TYPE_UNKNOWN || life->type == MT_TYPE_STRING_TABLE ? 0 : life->size;
}

static void add_to_parts(struct site_rules *s, const struct life *life)
{
    const uint64_t requested = requested_of(life);
    struct site_rules_part *part = &s->parts[life->born / s->width];

    part->news++;
    part->requested += requested;
    part->kept += (int64_t)requested;
    if (!life->freed)
        return;
    part = &s->parts[life->died / s->width];
    part->collected += is_managed(life);
    part->kept -= (int64_t)requested;
}

/* False when out of memory. */
static bool add_life(struct site_rules *s, struct site_rules_kept *kept, const struct life *life)
{
    const uint64_t accesses = life->loads + life->stores + life->modifies;
    struct site_rules_totals *row = &kept->totals;

    add_sums(&row->made, 1, life->size, accesses);
    if (is_brief(&s->limits, life))
        add_sums(&row->brief, 1, life->size, accesses);
    if (has_spare(&s->limits, life))
        add_sums(&row->spare, 1, life->size - life->extent, accesses);
    if (!add_alive(s, kept, life))
        return false;
    if (s->last_new < life->born)
        s->last_new = life->born;
    add_to_parts(s, life);
    row->managed += life->type != MT_TYPE_UNKNOWN;
    row->requested += requested_of(life);
    if (row->most_recent < life->born_time)
        row->most_recent = life->born_time;
    if (!life->freed)
        return true;
    row->frees++;
    row->held += (double)(life->died_allocated - life->born_allocated);
    return true;
}

bool site_rules_add(struct site_rules *s, const struct life *lives, const uint8_t *keep, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct site_rules_kept *kept;

        if ((keep && !keep[i]) || lives[i].inherited)
            continue;
        kept = reach(s, groups_key_of(s->key, &lives[i]));
        if (!kept || !add_life(s, kept, &lives[i]))
            return false;
    }
    return true;
}

/* ---- shards --------------------------------------------------------------------------------- */

static bool has_changes(const struct site_rules_changes *changes)
{
    static const struct site_rules_changes none;

    return memcmp(changes, &none, sizeof none) != 0;
}

static bool add_row(struct site_rules *s, struct site_rules_kept *kept, const struct site_rules_row *row)
{
    struct site_rules_changes *changes;

    site_rules_totals_merge(&kept->totals, &row->totals);
    if (!has_changes(&row->changes))
        return true;
    changes = changes_of(s, kept);
    if (changes)
        site_rules_changes_merge(changes, &row->changes);
    return changes != NULL;
}

void site_rules_rows(const struct site_rules *s, const uint32_t *indices, size_t n,
                     struct site_rules_row *rows)
{
    for (size_t i = 0; i < n; i++) {
        const struct site_rules_kept *kept = &s->kept[indices[i]];

        rows[i].totals = kept->totals;
        rows[i].changes = kept->changes ? s->changes[kept->changes - 1] : (struct site_rules_changes){0};
    }
}

bool site_rules_merge(struct site_rules *s, const uint32_t *keys, const struct site_rules_row *rows, size_t n,
                      const struct site_rules_part *parts)
{
    for (size_t i = 0; i < n; i++) {
        struct site_rules_kept *kept = reach(s, keys[i]);

        if (!kept || !add_row(s, kept, &rows[i]))
            return false;
    }
    for (size_t i = 0; i < SITE_RULES_PARTS; i++)
        s->parts[i] = sum_of(&s->parts[i], &parts[i]);
    return true;
}
