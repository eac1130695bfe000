/* handle_map.c - from the handles of live blocks to small dense numbers; see handle_map.h.
 *
 * Removal moves later entries of the chain up, so there are no tombstones and look-ups stay short however
 * long the trace is.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/handle_map.h"

#include "memtrace/base/array.h"

bool handle_map_init(struct handle_map *m)
{
    memset(m, 0, sizeof *m);
    m->mask = 1023;
    m->entries = calloc(m->mask + 1, sizeof *m->entries);
    return m->entries != NULL;
}

void handle_map_free(struct handle_map *m)
{
    free(m->entries);
    free(m->spare);
}

static void insert(struct handle_map *m, uint64_t key, uint32_t index)
{
    size_t i = handle_map_home(m, key);

    while (m->entries[i].key != 0)
        i = (i + 1) & m->mask;
    m->entries[i].key = key;
    m->entries[i].index = index;
}

static bool make_bigger(struct handle_map *m)
{
    struct handle_map_entry *old = m->entries;
    size_t n = m->mask + 1;
    struct handle_map_entry *bigger = calloc(2 * n, sizeof *bigger);

    if (!bigger)
        return false;
    m->entries = bigger;
    m->mask = 2 * n - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i].key != 0)
            insert(m, old[i].key, old[i].index);
    free(old);
    return true;
}

uint32_t handle_map_add(struct handle_map *m, uint64_t handle)
{
    uint32_t index;

    if (2 * (m->live + 1) > m->mask + 1 && !make_bigger(m))
        return HANDLE_MAP_NONE;
    if (handle == UINT64_MAX || (m->n_spare == 0 && m->next == HANDLE_MAP_NONE))
        return HANDLE_MAP_NONE;
    index = m->n_spare ? m->spare[--m->n_spare] : m->next++;
    insert(m, handle + 1, index);
    m->live++;
    return index;
}

/* Empty entry `hole`, and move up the entries after it that would no longer be found. */
static void close_hole(struct handle_map *m, size_t hole)
{
    size_t i = hole;

    for (;;) {
        size_t home;

        i = (i + 1) & m->mask;
        if (m->entries[i].key == 0)
            break;
        home = handle_map_home(m, m->entries[i].key);
        if (((i - home) & m->mask) >= ((i - hole) & m->mask)) {
            m->entries[hole] = m->entries[i];
            hole = i;
        }
    }
    m->entries[hole].key = 0;
}

uint32_t handle_map_remove(struct handle_map *m, uint64_t handle)
{
    size_t i = handle_map_home(m, handle + 1);
    uint32_t index;

    while (m->entries[i].key != 0 && m->entries[i].key != handle + 1)
        i = (i + 1) & m->mask;
    if (m->entries[i].key == 0)
        return HANDLE_MAP_NONE;
    index = m->entries[i].index;
    close_hole(m, i);
    m->live--;
    if (array_grow(&m->spare, &m->spare_room, m->n_spare + 1, sizeof *m->spare))
        m->spare[m->n_spare++] = index; /* without memory the index is merely lost */
    return index;
}
