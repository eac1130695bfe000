/* map.h - a hash table from 64-bit keys to 32-bit numbers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Open addressing, doubling; keys are never removed, only given another number. Key 0 is allowed. Running out
 * of memory ends the collector with a message: it could not go on anyway.
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

bool map_get(const struct map *m, uint64_t key, uint32_t *value);
void map_set(struct map *m, uint64_t key, uint32_t value);
void map_clear(struct map *m);

/* realloc that does not fail. */
void *grow(void *p, uint64_t count, uint64_t size);

#endif
