/* tagged.c - the common part of reference allocators with boundary tags: everything but the choice of the chunk.
 *
 * It reports exactly what is free, in constant time. It does not keep small blocks separate or defer joining, as
 * production allocators do, because it is to show the effect of the choice alone.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/tagged.h"

#include <string.h>

enum { ALIGN = 16 };

static struct chunk *s_first, *s_limit; /* s_limit: a tag without a chunk at the end of the heap */
static size_t s_free, s_chunks;         /* bytes in free chunks without their tags, and their number */

static struct chunk *chunk_of(void *ref)
{
    return (struct chunk *)((char *)ref - TAG);
}

static void set_size(struct chunk *c, size_t size, size_t used)
{
    c->size = size | used;
    chunk_above(c)->below = size;
}

bool chunk_is_topmost(const struct chunk *c)
{
    return chunk_above(c) == s_limit;
}

static void insert(struct chunk *c)
{
    s_free += chunk_size(c) - TAG;
    s_chunks++;
    fit_insert(c);
}

static void drop(struct chunk *c)
{
    s_free -= chunk_size(c) - TAG;
    s_chunks--;
    fit_remove(c);
}

bool tagged_init(void *base, size_t size)
{
    size &= ~(size_t)(ALIGN - 1);
    if (size < fit_room + LEAST_CHUNK + TAG)
        return false;
    fit_start(base);
    s_first = (struct chunk *)((char *)base + fit_room);
    s_limit = (struct chunk *)((char *)base + size - TAG);
    s_limit->size = TAG_USED;
    s_first->below = 0;
    set_size(s_first, size - fit_room - TAG, 0);
    insert(s_first);
    return true;
}

/* Use `need` bytes of the free chunk c, which is large enough. */
static void use(struct chunk *c, size_t need)
{
    size_t size = chunk_size(c);
    if (size - need < LEAST_CHUNK) {
        drop(c);
        set_size(c, size, TAG_USED);
        return;
    }
    struct chunk *rest = (struct chunk *)((char *)c + need);
    set_size(rest, size - need, 0);
    fit_replace(c, rest);
    s_free -= need;
    set_size(c, need, TAG_USED);
}

/* Size of a chunk for a block of `size` bytes; 0 if no chunk can be so large. */
static size_t need_of(size_t size)
{
    if (size > (size_t)((char *)s_limit - (char *)s_first))
        return 0;
    size_t need = TAG + ((size + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    return need < LEAST_CHUNK ? LEAST_CHUNK : need;
}

void *tagged_malloc(size_t size, uint32_t id)
{
    size_t need = need_of(size);
    struct chunk *c = need ? fit_find(need) : NULL;
    if (!c)
        return NULL;
    use(c, need);
    return (char *)c + TAG;
}

/* Join the chunk above c into c if it is free. */
static void join_above(struct chunk *c, size_t used)
{
    struct chunk *n = chunk_above(c);
    if (n->size & TAG_USED)
        return;
    drop(n);
    set_size(c, chunk_size(c) + chunk_size(n), used);
}

void tagged_free(void *ref, uint32_t id)
{
    struct chunk *c = chunk_of(ref);
    join_above(c, 0);
    set_size(c, chunk_size(c), 0);
    struct chunk *b = (struct chunk *)((char *)c - c->below);
    if (c->below && !(b->size & TAG_USED)) {
        drop(b);
        set_size(b, chunk_size(b) + chunk_size(c), 0);
        c = b;
    }
    insert(c);
}

size_t tagged_usable(void *ref)
{
    return chunk_size(chunk_of(ref)) - TAG;
}

/* Extend a used chunk by the free chunk above it. False if that is not free or too small. */
static bool grow(struct chunk *c, size_t need)
{
    struct chunk *n = chunk_above(c);
    if ((n->size & TAG_USED) || chunk_size(c) + chunk_size(n) < need)
        return false;
    size_t more = need - chunk_size(c);
    use(n, more < LEAST_CHUNK ? LEAST_CHUNK : more);
    set_size(c, chunk_size(c) + chunk_size(n), TAG_USED);
    return true;
}

void *tagged_realloc(void *ref, size_t size, uint32_t id)
{
    size_t need = need_of(size);
    if (size <= tagged_usable(ref) || (need && grow(chunk_of(ref), need)))
        return ref;
    void *moved = tagged_malloc(size, id);
    if (!moved)
        return NULL;
    memcpy(moved, ref, tagged_usable(ref));
    tagged_free(ref, id);
    return moved;
}

void *tagged_lock(void *ref)
{
    return ref;
}

void tagged_unlock(void *ref)
{
}

void *tagged_highest(void)
{
    struct chunk *last = (struct chunk *)((char *)s_limit - s_limit->below);
    return last->size & TAG_USED ? (void *)s_limit : (void *)last;
}

bool tagged_walk(struct steve_walk *out)
{
    size_t largest = fit_largest();
    *out = (struct steve_walk){s_free, s_chunks, largest ? largest - TAG : 0};
    return true;
}

size_t tagged_header(void *ref)
{
    return TAG;
}
