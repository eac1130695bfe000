/* firstfit.c - reference allocator: first fit with boundary tags.
 *
 * The textbook allocator: chunks lie side by side, each with a tag of 16 bytes (its own size and that of
 * the chunk below), the free ones linked in a list. malloc takes the first free chunk of the list that is
 * large enough and splits it; free joins a chunk with free neighbours at once, and what that makes goes to
 * the head of the list; but the topmost goes to the end, to be the last resort. It tells
 * exactly what is free. It does not order the list by address, so as to free in constant time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/driver.h"

#include <string.h>

enum { ALIGN = 16, TAG = 16, LEAST = 32, USED = 1 };

struct chunk {
    size_t below;              /* size of the chunk below, 0 = this is the lowest */
    size_t size;               /* of this chunk with its tag; bit 0: in use */
    struct chunk *next, *prev; /* of a free chunk only */
};

static struct chunk *s_first, *s_limit; /* s_limit: a tag without a chunk, closes the heap */
static struct chunk s_list;             /* head of the ring of free chunks */

static size_t size_of(const struct chunk *c)
{
    return c->size & ~(size_t)USED;
}

static struct chunk *above(struct chunk *c)
{
    return (struct chunk *)((char *)c + size_of(c));
}

static struct chunk *chunk_of(void *ref)
{
    return (struct chunk *)((char *)ref - TAG);
}

static void set_size(struct chunk *c, size_t size, size_t used)
{
    c->size = size | used;
    above(c)->below = size;
}

static void link_free(struct chunk *c)
{
    struct chunk *before = above(c) == s_limit ? s_list.prev : &s_list;
    c->next = before->next;
    c->prev = before;
    c->next->prev = before->next = c;
}

static void unlink_free(struct chunk *c)
{
    c->prev->next = c->next;
    c->next->prev = c->prev;
}

static bool ff_init(void *base, size_t size)
{
    size &= ~(size_t)(ALIGN - 1);
    if (size < LEAST + TAG)
        return false;
    s_first = base;
    s_limit = (struct chunk *)((char *)base + size - TAG);
    s_limit->size = USED;
    s_first->below = 0;
    set_size(s_first, size - TAG, 0);
    s_list.next = s_list.prev = &s_list;
    link_free(s_first);
    return true;
}

/* Use `need` bytes of free chunk c, which has them; what is left over stays in c's place of the list. */
static void split(struct chunk *c, size_t need)
{
    size_t left = size_of(c) - need;
    if (left < LEAST) {
        unlink_free(c);
        set_size(c, size_of(c), USED);
        return;
    }
    struct chunk *rest = (struct chunk *)((char *)c + need);
    rest->next = c->next;
    rest->prev = c->prev;
    rest->next->prev = rest->prev->next = rest;
    set_size(rest, left, 0);
    set_size(c, need, USED);
}

/* Bytes of a chunk that holds `size`; 0 when no chunk can. */
static size_t need_of(size_t size)
{
    if (size > (size_t)((char *)s_limit - (char *)s_first))
        return 0;
    size_t need = TAG + ((size + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    return need < LEAST ? LEAST : need;
}

static void *ff_malloc(size_t size, uint32_t id)
{
    size_t need = need_of(size);
    if (!need)
        return NULL;
    for (struct chunk *c = s_list.next; c != &s_list; c = c->next) {
        if (size_of(c) >= need) {
            split(c, need);
            return (char *)c + TAG;
        }
    }
    return NULL;
}

/* Join the free chunk above c, if it is free, into c. */
static void join_above(struct chunk *c, size_t used)
{
    struct chunk *n = above(c);
    if (n->size & USED)
        return;
    unlink_free(n);
    set_size(c, size_of(c) + size_of(n), used);
}

static void ff_free(void *ref, uint32_t id)
{
    struct chunk *c = chunk_of(ref);
    join_above(c, 0);
    set_size(c, size_of(c), 0);
    struct chunk *b = (struct chunk *)((char *)c - c->below);
    if (c->below && !(b->size & USED)) {
        unlink_free(b);
        set_size(b, size_of(b) + size_of(c), 0);
        c = b;
    }
    link_free(c); /* anew, since what was joined may have become the topmost */
}

static size_t ff_usable(void *ref)
{
    return size_of(chunk_of(ref)) - TAG;
}

static void *ff_realloc(void *ref, size_t size, uint32_t id)
{
    if (size <= ff_usable(ref))
        return ref;
    void *moved = ff_malloc(size, id);
    if (!moved)
        return NULL;
    memcpy(moved, ref, ff_usable(ref));
    ff_free(ref, id);
    return moved;
}

static void *ff_lock(void *ref)
{
    return ref;
}

static void ff_unlock(void *ref)
{
}

static void *ff_highest(void)
{
    struct chunk *last = (struct chunk *)((char *)s_limit - s_limit->below);
    return last->size & USED ? (void *)s_limit : (void *)last;
}

static bool ff_walk(struct steve_walk *out)
{
    *out = (struct steve_walk){0};
    for (struct chunk *c = s_list.next; c != &s_list; c = c->next) {
        out->free += size_of(c) - TAG;
        if (size_of(c) - TAG > out->largest)
            out->largest = size_of(c) - TAG;
        out->chunks++;
    }
    return true;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "firstfit",
    .description = "reference: first fit, boundary tags, immediate coalescing",
    .confinement = STEVE_IN_HEAP,
    .least_heap = 64,
    .init = ff_init,
    .malloc = ff_malloc,
    .free = ff_free,
    .realloc = ff_realloc,
    .usable = ff_usable,
    .lock = ff_lock,
    .unlock = ff_unlock,
    .highest = ff_highest,
    .walk = ff_walk,
};
