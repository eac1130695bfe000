/* nextfit.c - reference allocator: next fit; linked with tagged.c.
 *
 * The free chunks are in a ring. The search begins where the last one ended and uses the first chunk that is large
 * enough. A freed chunk is added at the place that the search reaches last. This spreads blocks over the heap, which
 * is the known weakness of this method, and the reason to include it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/tagged.h"

const size_t fit_room = 0;

static struct chunk *s_rover; /* the chunk at which the next search begins; NULL if there is none */

void fit_start(void *room)
{
    s_rover = NULL;
}

void fit_insert(struct chunk *c)
{
    if (!s_rover)
        s_rover = c->next = c->prev = c;
    c->next = s_rover;
    c->prev = s_rover->prev;
    c->prev->next = c->next->prev = c;
}

void fit_remove(struct chunk *c)
{
    if (s_rover == c)
        s_rover = c->next == c ? NULL : c->next;
    c->prev->next = c->next;
    c->next->prev = c->prev;
}

/* The rest replaces the chunk, so the next search begins with it. */
void fit_replace(struct chunk *old, struct chunk *rest)
{
    bool alone = old->next == old;
    rest->next = alone ? rest : old->next;
    rest->prev = alone ? rest : old->prev;
    rest->next->prev = rest->prev->next = rest;
    if (s_rover == old)
        s_rover = rest;
}

struct chunk *fit_find(size_t need)
{
    struct chunk *c = s_rover;
    if (!c)
        return NULL;
    do {
        if (chunk_size(c) >= need)
            return s_rover = c;
        c = c->next;
    } while (c != s_rover);
    return NULL;
}

size_t fit_largest(void)
{
    struct chunk *c = s_rover;
    size_t largest = 0;
    if (!c)
        return 0;
    do {
        if (chunk_size(c) > largest)
            largest = chunk_size(c);
        c = c->next;
    } while (c != s_rover);
    return largest;
}

const struct steve_driver steve_driver = {
    TAGGED_DRIVER,
    .name = "nextfit",
    .description = "reference: next fit (a roving pointer), boundary tags, immediate coalescing",
    .least_heap = 64,
};
