/* bestfit.c - reference allocator: best fit; linked with tagged.c.
 *
 * It chooses the smallest free chunk that is large enough, and of equal ones the lowest. The free chunks are in a
 * search tree ordered by size, then address. The tree is balanced as a treap. The priority of a chunk is a hash of
 * its address, so it need not be stored. All operations take O(log n), expected.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/tagged.h"

const size_t fit_room = 0;

/* next is the subtree of smaller chunks, prev that of larger ones */
static struct chunk *s_root;

static uint64_t rank_of(const struct chunk *c)
{
    uint64_t z = (uintptr_t)c * 0x9e3779b97f4a7c15u;
    return (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u;
}

static bool is_smaller(const struct chunk *a, const struct chunk *b)
{
    size_t x = chunk_size(a), y = chunk_size(b);
    return x != y ? x < y : a < b;
}

void fit_start(void *room)
{
    s_root = NULL;
}

/* Split a tree by c, which is not in it, into the chunks before and after c. */
static void split(struct chunk *tree, const struct chunk *c, struct chunk **smaller, struct chunk **larger)
{
    while (tree) {
        if (is_smaller(tree, c)) {
            *smaller = tree;
            smaller = &tree->prev;
            tree = tree->prev;
        } else {
            *larger = tree;
            larger = &tree->next;
            tree = tree->next;
        }
    }
    *smaller = *larger = NULL;
}

void fit_insert(struct chunk *c)
{
    struct chunk **at = &s_root;
    while (*at && rank_of(*at) >= rank_of(c))
        at = is_smaller(c, *at) ? &(*at)->next : &(*at)->prev;
    split(*at, c, &c->next, &c->prev);
    *at = c;
}

/* Join two trees, all chunks of the first being smaller than all of the second, and store the result at `at`. */
static void join(struct chunk **at, struct chunk *smaller, struct chunk *larger)
{
    while (smaller && larger) {
        if (rank_of(smaller) >= rank_of(larger)) {
            *at = smaller;
            at = &smaller->prev;
            smaller = smaller->prev;
        } else {
            *at = larger;
            at = &larger->next;
            larger = larger->next;
        }
    }
    *at = smaller ? smaller : larger;
}

void fit_remove(struct chunk *c)
{
    struct chunk **at = &s_root;
    while (*at != c)
        at = is_smaller(c, *at) ? &(*at)->next : &(*at)->prev;
    join(at, c->next, c->prev);
}

void fit_replace(struct chunk *old, struct chunk *rest)
{
    fit_remove(old);
    fit_insert(rest);
}

struct chunk *fit_find(size_t need)
{
    struct chunk *best = NULL;
    for (struct chunk *c = s_root; c; c = chunk_size(c) >= need ? c->next : c->prev)
        if (chunk_size(c) >= need)
            best = c;
    return best;
}

size_t fit_largest(void)
{
    struct chunk *c = s_root;
    while (c && c->prev)
        c = c->prev;
    return c ? chunk_size(c) : 0;
}

const struct steve_driver steve_driver = {
    TAGGED_DRIVER,
    .name = "bestfit",
    .description = "reference: best fit (the lowest of equals), boundary tags, immediate coalescing",
    .least_heap = 64,
};
