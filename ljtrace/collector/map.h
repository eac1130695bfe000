/* map.h - a hash table from 64-bit keys to 32-bit numbers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Open addressing; the capacity doubles when the table is half full. Keys are never removed, but their
 * numbers can be replaced. Key 0 is allowed. When out of memory the collector is aborted: it could not go on
 * anyway.
 */
#ifndef COLLECTOR_MAP_H
#define COLLECTOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct map {
    struct map_entry *entry;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t count;
};

/* Look up a key. Returns false if it is not in the map. */
bool map_get(const struct map *m, uint64_t key, uint32_t *value);
/* Add a key or replace its number. */
void map_set(struct map *m, uint64_t key, uint32_t value);
/* Remove all keys and free the memory. */
void map_clear(struct map *m);

/* reallocarray that aborts when out of memory. */
void *grow(void *p, uint64_t count, uint64_t size);

#endif
