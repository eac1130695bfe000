/* handle_map.h - from the handles of live blocks to small dense numbers.
 *
 * The handles of an ops file only increase, but the kernels keep one record for each *live* block in an array. This
 * maps a handle to the index of the record. Indices of freed blocks are used again, so that memory is proportional
 * to the live blocks. It is a hash table with linear probing, at most half full. Blocks that are made one after the
 * other are mostly used and freed together, so eight successive handles are adjacent.
 * Handles 0 ... UINT64_MAX - 1.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_HANDLE_MAP_H
#define STEVE_KERNELS_BASE_HANDLE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDLE_MAP_NONE UINT32_MAX

struct handle_map_entry {
    uint64_t key; /* handle + 1; 0 = free */
    uint32_t index;
};

struct handle_map {
    struct handle_map_entry *entries;
    size_t mask; /* number of entries - 1 */
    size_t live;
    uint32_t *spare; /* indices given back */
    size_t n_spare, spare_room;
    uint32_t next; /* smallest index never given out */
};

bool handle_map_init(struct handle_map *m); /* false: out of memory */
void handle_map_free(struct handle_map *m);

/* A new handle: its index, or HANDLE_MAP_NONE when out of memory or for UINT64_MAX, which is no handle. The
 * handle must not be live. */
uint32_t handle_map_add(struct handle_map *m, uint64_t handle);
/* A handle dies: the index it had, or HANDLE_MAP_NONE. */
uint32_t handle_map_remove(struct handle_map *m, uint64_t handle);

static inline size_t handle_map_home(const struct handle_map *m, uint64_t key)
{
    return (size_t)(((key >> 3) * 0x9E3779B97F4A7C15u >> 32 << 3) + (key & 7)) & m->mask;
}

/* The index of a handle, or HANDLE_MAP_NONE. */
static inline uint32_t handle_map_find(const struct handle_map *m, uint64_t handle)
{
    size_t i = handle_map_home(m, handle + 1);

    while (m->entries[i].key != 0) {
        if (m->entries[i].key == handle + 1)
            return m->entries[i].index;
        i = (i + 1) & m->mask;
    }
    return HANDLE_MAP_NONE;
}

#endif
