/* intern.h - assigns ids to byte strings; equal strings have equal ids. The writer uses it for strings.
 *
 * Ids count from 0 in the order in which strings are first added. Each string is copied, and none is ever removed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_INTERN_H
#define MEMTRACE_BASE_INTERN_H

#include "memtrace/base/buffer.h"

struct intern_entry {
    uint64_t hash;
    uint64_t offset; /* offset of the bytes of the key */
    uint32_t len;
    uint32_t id_plus_1; /* 0 = free entry */
};

struct intern {
    struct intern_entry *entries;
    uint64_t mask;
    uint32_t count;
    struct buffer keys;
};

#define INTERN_FAILED UINT32_MAX

bool intern_init(struct intern *t);
void intern_free(struct intern *t);

/* The id of a key, which is added if it is new; *is_new says so. INTERN_FAILED when out of memory. */
uint32_t intern(struct intern *t, const void *key, size_t len, bool *is_new);

/* The entries of all keys, ordered by id. The caller frees the array. NULL when out of memory. */
const struct intern_entry **intern_by_id(const struct intern *t);

#endif
