/* map.c - a hash table from 64-bit keys to 32-bit numbers, with open addressing.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/map.h"
#include <stdio.h>
#include <stdlib.h>

struct map_entry {
    uint64_t key;
    uint32_t value;
    bool used;
};

void *grow(void *p, uint64_t count, uint64_t size)
{
    void *q = reallocarray(p, count, size);
    if (!q)
        abort();
    return q;
}

static uint32_t slot_of(const struct map *m, uint64_t key)
{
    uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15ULL) >> 32) & (m->capacity - 1);
    while (m->entry[i].used && m->entry[i].key != key)
        i = (i + 1) & (m->capacity - 1);
    return i;
}

bool map_get(const struct map *m, uint64_t key, uint32_t *value)
{
    if (m->capacity == 0)
        return false;
    const struct map_entry *e = &m->entry[slot_of(m, key)];
    *value = e->value;
    return e->used;
}

static void enlarge(struct map *m)
{
    struct map old = *m;
    m->capacity = old.capacity ? 2 * old.capacity : 64;
    m->entry = calloc(m->capacity, sizeof *m->entry);
    if (!m->entry)
        abort();
    for (uint32_t i = 0; i < old.capacity; i++)
        if (old.entry[i].used)
            m->entry[slot_of(m, old.entry[i].key)] = old.entry[i];
    free(old.entry);
}

void map_set(struct map *m, uint64_t key, uint32_t value)
{
    if (2 * m->count >= m->capacity)
        enlarge(m);
    struct map_entry *e = &m->entry[slot_of(m, key)];
    m->count += !e->used;
    *e = (struct map_entry){key, value, true};
}

void map_clear(struct map *m)
{
    free(m->entry);
    *m = (struct map){0};
}
