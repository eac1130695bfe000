/* ended_lives.c - sums of the lives of blocks that were made and freed; see ended_lives.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/ended_lives.h"

void ended_lives_init(struct ended_lives *e, enum groups_key key)
{
    *e = (struct ended_lives){.key = key};
}

void ended_lives_free(struct ended_lives *e)
{
    free(e->rows);
    keyed_rows_free(&e->of_keys);
}

/* The row of a key; NULL when out of memory. */
static struct ended_lives_row *reach(struct ended_lives *e, uint32_t key)
{
    size_t index;

    return keyed_rows_reach(&e->of_keys, key, &e->rows, sizeof *e->rows, &index) ? &e->rows[index] : NULL;
}

bool ended_lives_add(struct ended_lives *e, const struct life *lives, const uint8_t *keep, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct life *life = &lives[i];
        struct ended_lives_row *row;

        if ((keep && !keep[i]) || !life->freed || life->inherited || life->container)
            continue;
        row = reach(e, groups_key_of(e->key, life));
        if (!row)
            return false;
        ended_lives_row_add(row, life);
        groups_add_peak(&row->peak, &row->peak_bytes, life->peak, life_scaled(life, life->peak_bytes));
    }
    return true;
}

bool ended_lives_merge(struct ended_lives *e, const uint32_t *keys, const struct ended_lives_row *rows,
                       size_t n, uint64_t peak)
{
    for (size_t i = 0; i < n; i++) {
        struct ended_lives_row *row = reach(e, keys[i]);

        if (!row)
            return false;
        ended_lives_row_merge(row, &rows[i]);
        groups_add_peak(&row->peak, &row->peak_bytes, peak, peak ? rows[i].peak_bytes : 0);
    }
    return true;
}

void ended_lives_settle(struct ended_lives *e, uint64_t peak)
{
    for (size_t i = 0; i < e->of_keys.n; i++)
        if (e->rows[i].peak != peak)
            e->rows[i].peak = e->rows[i].peak_bytes = 0;
}
