/* tlsf.c - reference allocator: two-level segregated fit; linked with tagged.c.
 *
 * The free chunks are in lists by size: 16 lists per power of two, found through bit maps, so that malloc and free
 * take constant time. The requested size is rounded up to the next list, of which every chunk is large enough. This
 * is a good fit but not the best: a chunk in the list below that would be large enough is not used. The heads of the
 * lists are in the heap. After Masmano and others (2004); the code is new.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/tagged.h"

enum { STEPS_LOG = 4, STEPS = 1 << STEPS_LOG, LEAST_LOG = 5, LEVELS = 48 - LEAST_LOG };

struct table {
    uint64_t levels;        /* bit set: a list of the level is not empty */
    uint64_t lists[LEVELS]; /* bit set: the list is not empty */
    struct chunk *heads[LEVELS][STEPS];
};

const size_t fit_room = (sizeof(struct table) + 15) / 16 * 16;

static struct table *s_table;

static unsigned level_of(size_t size)
{
    return 63u - (unsigned)__builtin_clzll(size) - LEAST_LOG;
}

static unsigned step_of(size_t size)
{
    return (unsigned)(size >> (level_of(size) + LEAST_LOG - STEPS_LOG)) & (STEPS - 1);
}

/* The least size of chunks in a list. */
static size_t least_of(unsigned level, unsigned step)
{
    return (size_t)(STEPS + step) << (level + LEAST_LOG - STEPS_LOG);
}

void fit_start(void *room)
{
    s_table = room;
}

void fit_insert(struct chunk *c)
{
    unsigned level = level_of(chunk_size(c)), step = step_of(chunk_size(c));
    struct chunk **head = &s_table->heads[level][step];
    c->next = *head;
    c->prev = NULL;
    if (*head)
        (*head)->prev = c;
    *head = c;
    s_table->levels |= 1ull << level;
    s_table->lists[level] |= 1ull << step;
}

void fit_remove(struct chunk *c)
{
    unsigned level = level_of(chunk_size(c)), step = step_of(chunk_size(c));
    if (c->next)
        c->next->prev = c->prev;
    if (c->prev) {
        c->prev->next = c->next;
        return;
    }
    s_table->heads[level][step] = c->next;
    if (!c->next && !(s_table->lists[level] &= ~(1ull << step)))
        s_table->levels &= ~(1ull << level);
}

void fit_replace(struct chunk *old, struct chunk *rest)
{
    fit_remove(old);
    fit_insert(rest);
}

struct chunk *fit_find(size_t need)
{
    size_t rounded = need + ((size_t)1 << (level_of(need) + LEAST_LOG - STEPS_LOG)) - 1;
    unsigned level = level_of(rounded);
    uint64_t lists = s_table->lists[level] >> step_of(rounded) << step_of(rounded);
    if (!lists) {
        uint64_t levels = s_table->levels & ~((2ull << level) - 1);
        if (!levels)
            return NULL;
        level = (unsigned)__builtin_ctzll(levels);
        lists = s_table->lists[level];
    }
    return s_table->heads[level][__builtin_ctzll(lists)];
}

size_t fit_largest(void)
{
    if (!s_table->levels)
        return 0;
    unsigned level = 63u - (unsigned)__builtin_clzll(s_table->levels);
    return least_of(level, 63u - (unsigned)__builtin_clzll(s_table->lists[level]));
}

const struct steve_driver steve_driver = {
    TAGGED_DRIVER,
    .name = "tlsf",
    .description = "reference: two-level segregated fit (constant time), boundary tags",
    .least_heap = sizeof(struct table) + 128,
};
