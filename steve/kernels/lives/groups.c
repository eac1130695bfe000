/* groups.c - sums of lives of blocks; see groups.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/groups.h"

void groups_init(struct groups *g, enum groups_key key)
{
    memset(g, 0, sizeof *g);
    g->key = key;
}

void groups_free(struct groups *g)
{
    free(g->rows);
    keyed_rows_free(&g->of_keys);
    free(g->variances);
}

bool groups_vary(struct groups *g, const struct group *row, const struct life *life)
{
    size_t index = (size_t)(row - g->rows);

    if (!array_grow(&g->variances, &g->variances_room, index + 1, sizeof *g->variances))
        return false;
    struct group_variances *v = &g->variances[index];
    group_vary(v, life);
    if (life->peak > row->peak)
        v->peak_bytes = 0;
    if (life->peak >= row->peak)
        v->peak_bytes += life_variance(life, life->peak_bytes);
    return true;
}

bool groups_add(struct groups *g, const struct life *lives, const uint8_t *keep, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((!keep || keep[i]) && !groups_take(g, &lives[i]))
            return false;
    return true;
}

bool groups_merge(struct groups *g, const uint32_t *keys, const struct group *rows, size_t n, uint64_t peak)
{
    for (size_t i = 0; i < n; i++) {
        struct group *row = groups_row(g, keys[i]);

        if (!row)
            return false;
        group_merge(row, &rows[i]);
        groups_add_peak(&row->peak, &row->peak_bytes, peak, peak ? rows[i].peak_bytes : 0);
    }
    return true;
}

void groups_settle(struct groups *g, uint64_t peak)
{
    for (size_t i = 0; i < g->of_keys.n; i++) {
        if (g->rows[i].peak == peak)
            continue;
        g->rows[i].peak = g->rows[i].peak_bytes = 0;
        if (i < g->variances_room)
            g->variances[i].peak_bytes = 0;
    }
}
