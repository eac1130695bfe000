/* intern.h - gives equal byte strings equal ids; for strings and stacks of the writer.
 *
 * Ids count from 0 in order of first sight. Keeps a copy of every key; never forgets one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_INTERN_H
#define MEMTRACE_BASE_INTERN_H

#include "memtrace/base/buffer.h"

struct intern_entry {
    uint64_t hash;
    uint64_t offset; /* of the key's bytes */
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

/* The id of a key; *is_new says that it was made now. INTERN_FAILED when out of memory. */
uint32_t intern(struct intern *t, const void *key, size_t len, bool *is_new);

/* The entries of all keys by id, an array to be freed; NULL when out of memory. */
const struct intern_entry **intern_by_id(const struct intern *t);

#endif
