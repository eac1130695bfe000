/* groups.c - lives of blocks added up; see groups.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/groups.h"

#include "memtrace/grow.h"

void groups_init(struct groups *g)
{
    memset(g, 0, sizeof *g);
}

void groups_free(struct groups *g)
{
    free(g->rows);
}

static uint32_t key_of(enum groups_key key, const struct life *life)
{
    if (key == GROUPS_BY_STACK)
        return life->stack;
    if (key == GROUPS_BY_TYPE)
        return life->type;
    return key == GROUPS_BY_THREAD ? life->thread : life->free_thread;
}

static void add_peak(struct group *g, uint64_t peak, uint64_t bytes)
{
    if (peak > g->peak) {
        g->peak = peak;
        g->peak_bytes = 0;
    }
    if (peak == g->peak)
        g->peak_bytes += bytes;
}

static void add_accesses(struct group *g, const struct life *life)
{
    g->loads += life->loads;
    g->stores += life->stores;
    g->modifies += life->modifies;
    g->bytes_read += life->bytes_read;
    g->bytes_written += life->bytes_written;
    g->used += life->used;
    g->shared += life->shared;
}

static void keep_most(uint64_t *most, uint64_t value)
{
    if (value > *most)
        *most = value;
}

static void add_resizes(struct group *g, const struct life *life)
{
    if (life->resizes == 0)
        return;
    g->resized++;
    g->resizes += life->resizes;
    g->moves += life->moves;
    g->copied += life->copied;
    g->first_size += life->first_size;
    g->last_size += life->size;
    keep_most(&g->most_resizes, life->resizes);
}

static void add(struct group *g, const struct life *life)
{
    g->blocks++;
    g->bytes += life->bytes;
    g->size += life->size;
    g->frees += life->freed;
    g->foreign += life->freed && life->free_thread != life->thread;
    g->live_blocks += !life->freed;
    g->live_bytes += life->freed ? 0 : life->size;
    g->lifetimes += life->died - life->born;
    keep_most(&g->most_bytes, life->size);
    keep_most(&g->most, life->most);
    add_resizes(g, life);
    add_accesses(g, life);
    add_peak(g, life->peak, life->peak_bytes);
}

/* Have a row with a key; false when out of memory. */
static inline bool reach(struct groups *g, uint32_t key)
{
    return grow_used(&g->rows, &g->n, &g->room, (size_t)key + 1, sizeof *g->rows);
}

bool groups_add(struct groups *g, enum groups_key key, const struct life *lives, const uint8_t *keep,
                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t k = key_of(key, &lives[i]);

        if (keep && !keep[i])
            continue;
        if (!reach(g, k))
            return false;
        add(&g->rows[k], &lives[i]);
    }
    return true;
}

static void merge(struct group *g, const struct group *row, uint64_t peak)
{
    struct group before = *g;

    for (size_t i = 0; i < sizeof *g / sizeof(uint64_t); i++)
        ((uint64_t *)g)[i] += ((const uint64_t *)row)[i];
    g->most_bytes = before.most_bytes;
    g->most = before.most;
    g->most_resizes = before.most_resizes;
    keep_most(&g->most_bytes, row->most_bytes);
    keep_most(&g->most, row->most);
    keep_most(&g->most_resizes, row->most_resizes);
    g->peak = before.peak;
    g->peak_bytes = before.peak_bytes;
    add_peak(g, peak, peak ? row->peak_bytes : 0);
}

bool groups_merge(struct groups *g, const uint32_t *keys, const struct group *rows, size_t n, uint64_t peak)
{
    for (size_t i = 0; i < n; i++) {
        if (!reach(g, keys[i]))
            return false;
        merge(&g->rows[keys[i]], &rows[i], peak);
    }
    return true;
}

void groups_settle(struct groups *g, uint64_t peak)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->rows[i].peak != peak)
            g->rows[i].peak = g->rows[i].peak_bytes = 0;
}
