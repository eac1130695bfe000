/* heapmap.c - computes the contents of the cells of the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/film/heapmap.h"
#include "drivers/film/geometry.h"
#include "drivers/heap/raw_syscalls.h"

#include <stddef.h>
#include <string.h>

bool heapmap_open(struct heapmap *m, uint64_t extent, uint64_t cells)
{
    bool good = true;
    *m = (struct heapmap){.cell_bytes = geometry_cell_bytes(extent, cells), .cells = cells};
    for (int i = 0; i < LAYERS; i++) {
        m->whole[i] = raw_map((cells + 1) * sizeof *m->whole[i]);
        m->part[i] = raw_map((cells + 1) * sizeof *m->part[i]);
        good = good && m->whole[i] && m->part[i];
    }
    m->cell = raw_map(cells * sizeof *m->cell);
    return good && m->cell;
}

void heapmap_add(struct heapmap *m, enum heap_layer layer, uint64_t at, uint64_t bytes, int64_t weight)
{
    uint64_t end = at + bytes, first = at / m->cell_bytes, last = end / m->cell_bytes;
    if (first >= m->cells || bytes == 0)
        return;
    if (last >= m->cells) {
        last = m->cells;
        end = last * m->cell_bytes;
    }
    if (first == last) {
        m->part[layer][first] += weight * (int64_t)(end - at);
        return;
    }
    m->part[layer][first] += weight * (int64_t)((first + 1) * m->cell_bytes - at);
    m->part[layer][last] += weight * (int64_t)(end - last * m->cell_bytes);
    m->whole[layer][first + 1] += weight;
    m->whole[layer][last] -= weight;
}

static bool is_of_site(int layer)
{
    return layer >= LAYER_SITE && layer < LAYER_FRESH;
}

static float clamp(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static void sum_layer(struct heapmap *m, enum heap_layer layer)
{
    int64_t covering = 0;
    for (uint64_t i = 0; i < m->cells; i++) {
        covering += m->whole[layer][i];
        m->cell[i].share[layer] = clamp((float)covering + (float)m->part[layer][i] / (float)m->cell_bytes);
    }
}

/* After the layer of used bytes, through which the sums are divided. */
static void sum_values(struct heapmap *m)
{
    int64_t covering = 0;
    for (uint64_t i = 0; i < m->cells; i++) {
        covering += m->whole[LAYER_VALUE][i];
        float used = m->cell[i].share[LAYER_USED];
        if (used > 0)
            m->cell[i].value =
                ((float)covering + (float)m->part[LAYER_VALUE][i] / (float)m->cell_bytes) / used;
    }
}

void heapmap_clear(struct heapmap *m, enum heap_layer layer)
{
    memset(m->whole[layer], 0, (m->cells + 1) * sizeof *m->whole[layer]);
    memset(m->part[layer], 0, (m->cells + 1) * sizeof *m->part[layer]);
}

static void grow_older(struct cell *c)
{
    for (int i = 0; i < GLOWS; i++)
        c->glow[i] = c->share[LAYER_FRESH + i] > 0 ? HEAT_FULL : c->glow[i] - (c->glow[i] > 0);
    c->seen |= c->share[LAYER_FRESH] > 0;
}

void heapmap_frame(struct heapmap *m)
{
    for (int i = 0; i < LAYERS; i++)
        if (i != LAYER_VALUE && (m->by_site || !is_of_site(i)))
            sum_layer(m, (enum heap_layer)i);
    sum_values(m);
    for (int i = LAYER_FRESH; i < LAYERS; i++)
        heapmap_clear(m, (enum heap_layer)i);
    for (uint64_t i = 0; i < m->cells; i++)
        grow_older(&m->cell[i]);
}
