/* intern.c - assigns ids to byte strings; equal strings have equal ids.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/intern.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static bool allocate(struct intern *t, uint64_t capacity)
{
    t->entries = calloc(capacity, sizeof *t->entries);
    t->mask = capacity - 1;
    return t->entries != NULL;
}

bool intern_init(struct intern *t)
{
    *t = (struct intern){0};
    return allocate(t, 256);
}

void intern_free(struct intern *t)
{
    free(t->entries);
    buffer_free(&t->keys);
}

static struct intern_entry *find(const struct intern *t, uint64_t hash, const void *key, size_t len)
{
    for (uint64_t i = hash & t->mask;; i = (i + 1) & t->mask) {
        struct intern_entry *e = &t->entries[i];
        if (!e->id_plus_1)
            return e;
        if (e->hash == hash && e->len == len && memcmp(t->keys.data + e->offset, key, len) == 0)
            return e;
    }
}

static bool grow(struct intern *t)
{
    struct intern old = *t;
    if (!allocate(t, (old.mask + 1) * 2)) {
        t->entries = old.entries;
        t->mask = old.mask;
        return false;
    }
    for (uint64_t i = 0; i <= old.mask; i++) {
        const struct intern_entry *e = &old.entries[i];
        if (e->id_plus_1)
            *find(t, e->hash, t->keys.data + e->offset, e->len) = *e;
    }
    free(old.entries);
    return true;
}

uint32_t intern(struct intern *t, const void *key, size_t len, bool *is_new)
{
    uint64_t hash = XXH3_64bits(key, len);
    if (t->count * 2ull > t->mask && !grow(t))
        return INTERN_FAILED;
    struct intern_entry *e = find(t, hash, key, len);
    *is_new = !e->id_plus_1;
    if (!*is_new)
        return e->id_plus_1 - 1;
    if (!buffer_reserve(&t->keys, len + 1))
        return INTERN_FAILED;
    *e = (struct intern_entry){hash, buffer_size(&t->keys), (uint32_t)len, ++t->count};
    buffer_append(&t->keys, key, len);
    return t->count - 1;
}

const struct intern_entry **intern_by_id(const struct intern *t)
{
    const struct intern_entry **by_id = calloc((size_t)t->count + 1, sizeof *by_id);
    for (uint64_t i = 0; by_id && i <= t->mask; i++)
        if (t->entries[i].id_plus_1)
            by_id[t->entries[i].id_plus_1 - 1] = &t->entries[i];
    return by_id;
}
