/* firstfit.c - reference allocator: first fit; linked with tagged.c.
 *
 * The free chunks are in a list. The first one that is large enough is used, and its rest keeps its place in the
 * list. A freed chunk is added at the head of the list. The topmost chunk is added at the end, so that it is used
 * last. The list is not ordered by address, so that freeing takes constant time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/tagged.h"

const size_t fit_room = 0;

static struct chunk s_list; /* head of the ring of free chunks */

void fit_start(void *room)
{
    s_list.next = s_list.prev = &s_list;
}

void fit_insert(struct chunk *c)
{
    struct chunk *before = chunk_is_topmost(c) ? s_list.prev : &s_list;
    c->next = before->next;
    c->prev = before;
    c->next->prev = before->next = c;
}

void fit_remove(struct chunk *c)
{
    c->prev->next = c->next;
    c->next->prev = c->prev;
}

void fit_replace(struct chunk *old, struct chunk *rest)
{
    rest->next = old->next;
    rest->prev = old->prev;
    rest->next->prev = rest->prev->next = rest;
}

struct chunk *fit_find(size_t need)
{
    for (struct chunk *c = s_list.next; c != &s_list; c = c->next)
        if (chunk_size(c) >= need)
            return c;
    return NULL;
}

size_t fit_largest(void)
{
    size_t largest = 0;
    for (struct chunk *c = s_list.next; c != &s_list; c = c->next)
        if (chunk_size(c) > largest)
            largest = chunk_size(c);
    return largest;
}

const struct steve_driver steve_driver = {
    TAGGED_DRIVER,
    .name = "firstfit",
    .description = "reference: first fit, boundary tags, immediate coalescing",
    .least_heap = 64,
};
