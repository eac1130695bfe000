/* jeff.c - Jeff's malloc, free and locks. Compaction is in jeff_compact.c.
 *
 * Free blocks are in one list per power of two. The search for a block examines a few blocks of the list in which a
 * fitting block may be. All blocks in the lists of larger sizes fit. If these are empty, memory above the topmost
 * block is used. Only then is the rest of the list of the requested size examined.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/jeff.h"

#include <string.h>

enum { ALIGN = 16, FEW_BLOCKS = 16 };

/* Stored in the memory of a free block: its neighbours in its list. */
struct links {
    uint32_t next, prev;
};

static uint32_t number_of(const struct jeff *j, const struct jeff_block *b)
{
    return b ? (uint32_t)((struct jeff_block *)j->end - b) : 0;
}

static struct links *links_of(const struct jeff *j, uint32_t number)
{
    return (struct links *)jeff_header(j, number)->memory;
}

static unsigned list_of(size_t size)
{
    return 59u - (unsigned)__builtin_clzll(size);
}

bool jeff_init(struct jeff *j, void *base, size_t size, bool coalesce)
{
    size &= ~(size_t)(ALIGN - 1);
    *j = (struct jeff){.base = base, .top = base, .coalesce = coalesce};
    size_t used = size / sizeof(struct jeff_block) * sizeof(struct jeff_block);
    j->end = (char *)base + used;
    return size >= 2 * sizeof(struct jeff_block);
}

size_t jeff_unused_bytes(const struct jeff *j)
{
    return (size_t)((char *)((struct jeff_block *)j->end - j->headers) - j->top);
}

static struct jeff_block *new_header(struct jeff *j)
{
    struct jeff_block *b = jeff_header(j, j->spare);
    if (b) {
        j->spare = b->above;
        return b;
    }
    if (jeff_unused_bytes(j) < sizeof *b || j->headers == UINT32_MAX)
        return NULL;
    return jeff_header(j, ++j->headers);
}

static void drop_header(struct jeff *j, struct jeff_block *b)
{
    *b = (struct jeff_block){.above = j->spare};
    j->spare = number_of(j, b);
}

/* Insert b into the chain below `above`; NULL = at the top. */
static void chain(struct jeff *j, struct jeff_block *b, struct jeff_block *above)
{
    b->above = number_of(j, above);
    b->below = above ? above->below : j->highest;
    *(b->below ? &jeff_header(j, b->below)->above : &j->lowest) = number_of(j, b);
    *(above ? &above->below : &j->highest) = number_of(j, b);
}

static void unchain(struct jeff *j, struct jeff_block *b)
{
    *(b->below ? &jeff_header(j, b->below)->above : &j->lowest) = b->above;
    *(b->above ? &jeff_header(j, b->above)->below : &j->highest) = b->below;
}

static void insert_in_list(struct jeff *j, struct jeff_block *b)
{
    unsigned list = list_of(jeff_usable(b));
    uint32_t number = number_of(j, b), head = j->lists[list];
    *links_of(j, number) = (struct links){head, 0};
    if (head)
        links_of(j, head)->prev = number;
    j->lists[list] = number;
    j->filled |= 1ull << list;
    j->free_bytes += jeff_usable(b);
    j->free_blocks++;
}

static void remove_from_list(struct jeff *j, struct jeff_block *b)
{
    unsigned list = list_of(jeff_usable(b));
    struct links l = *links_of(j, number_of(j, b));
    if (l.next)
        links_of(j, l.next)->prev = l.prev;
    if (l.prev)
        links_of(j, l.prev)->next = l.next;
    else if (!(j->lists[list] = l.next))
        j->filled &= ~(1ull << list);
    j->free_bytes -= jeff_usable(b);
    j->free_blocks--;
}

bool jeff_insert_free(struct jeff *j, char *from, char *to, struct jeff_block *above)
{
    struct jeff_block *b = new_header(j);
    if (!b)
        return false;
    b->memory = from;
    b->size = (size_t)(to - from);
    chain(j, b, above);
    insert_in_list(j, b);
    return true;
}

void jeff_forget_free(struct jeff *j)
{
    memset(j->lists, 0, sizeof j->lists);
    j->filled = j->free_bytes = j->free_blocks = 0;
}

void jeff_remove_forgotten(struct jeff *j, struct jeff_block *b)
{
    unchain(j, b);
    drop_header(j, b);
}

void jeff_remove_free(struct jeff *j, struct jeff_block *b)
{
    remove_from_list(j, b);
    unchain(j, b);
    drop_header(j, b);
}

/* Find a block in a list that fits, examining at most `most_blocks` blocks. */
static struct jeff_block *search_list(const struct jeff *j, unsigned list, size_t need, size_t most_blocks)
{
    for (uint32_t n = j->lists[list]; n && most_blocks; n = links_of(j, n)->next, most_blocks--)
        if (jeff_header(j, n)->size >= need)
            return jeff_header(j, n);
    return NULL;
}

static struct jeff_block *find_block(const struct jeff *j, size_t need)
{
    unsigned list = list_of(need);
    struct jeff_block *b = search_list(j, list, need, FEW_BLOCKS);
    uint64_t above = j->filled & ~((2ull << list) - 1);
    if (b || !above)
        return b;
    return jeff_header(j, j->lists[__builtin_ctzll(above)]);
}

/* Make a free block a used one. The rest becomes a free block above it, if there is a header for it. */
static struct jeff_block *allocate_from(struct jeff *j, struct jeff_block *b, size_t need)
{
    size_t size = jeff_usable(b);
    remove_from_list(j, b);
    if (size > need && jeff_insert_free(j, b->memory + need, b->memory + size, jeff_header(j, b->above)))
        size = need;
    b->size = size | JEFF_USED;
    return b;
}

static struct jeff_block *extend_top(struct jeff *j, size_t need)
{
    struct jeff_block *b = new_header(j);
    if (b && need > jeff_unused_bytes(j)) {
        drop_header(j, b);
        return NULL;
    }
    if (!b)
        return NULL;
    b->memory = j->top;
    b->size = need | JEFF_USED;
    j->top += need;
    chain(j, b, NULL);
    return b;
}

struct jeff_block *jeff_malloc(struct jeff *j, size_t size)
{
    if (size > (size_t)(j->end - j->base))
        return NULL;
    size_t need = size ? (size + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    struct jeff_block *b = find_block(j, need);
    if (b)
        return allocate_from(j, b, need);
    if ((b = extend_top(j, need)))
        return b;
    b = search_list(j, list_of(need), need, SIZE_MAX);
    return b ? allocate_from(j, b, need) : NULL;
}

static bool is_free(const struct jeff_block *b)
{
    return b && !(b->size & JEFF_USED);
}

/* Join b, which is in no list, with its free neighbours. */
static void coalesce_with_neighbours(struct jeff *j, struct jeff_block *b)
{
    struct jeff_block *above = jeff_header(j, b->above), *below = jeff_header(j, b->below);
    if (is_free(above)) {
        b->size += above->size;
        jeff_remove_free(j, above);
    }
    if (is_free(below)) {
        b->size += below->size;
        b->memory = below->memory;
        jeff_remove_free(j, below);
    }
}

/* Return b, which is in no list and topmost, and the free blocks below it to the unused memory. */
static void return_top(struct jeff *j, struct jeff_block *b)
{
    j->top = b->memory;
    unchain(j, b);
    drop_header(j, b);
    while (is_free(b = jeff_header(j, j->highest))) {
        j->top = b->memory;
        jeff_remove_free(j, b);
    }
}

void jeff_free(struct jeff *j, struct jeff_block *b)
{
    j->locked_blocks -= (b->size & JEFF_LOCKED) != 0;
    b->size = jeff_usable(b);
    if (j->coalesce)
        coalesce_with_neighbours(j, b);
    if (b->above)
        insert_in_list(j, b);
    else
        return_top(j, b);
}

struct jeff_block *jeff_realloc(struct jeff *j, struct jeff_block *b, size_t size)
{
    size_t had = jeff_usable(b);
    if (size <= had)
        return b;
    struct jeff_block *moved = jeff_malloc(j, size);
    if (!moved)
        return NULL;
    memcpy(moved->memory, b->memory, had);
    jeff_free(j, b);
    return moved;
}

void *jeff_lock(struct jeff *j, struct jeff_block *b)
{
    j->locked_blocks += !(b->size & JEFF_LOCKED);
    b->size |= JEFF_LOCKED;
    return b->memory;
}

void jeff_unlock(struct jeff *j, struct jeff_block *b)
{
    j->locked_blocks -= (b->size & JEFF_LOCKED) != 0;
    b->size &= ~(size_t)JEFF_LOCKED;
}

void *jeff_weak_lock(struct jeff_block *b)
{
    b->size |= JEFF_WEAK;
    return b->memory;
}

bool jeff_weak_unlock(struct jeff_block *b)
{
    bool stayed = b->size & JEFF_WEAK;
    b->size &= ~(size_t)JEFF_WEAK;
    return stayed;
}

size_t jeff_largest(const struct jeff *j)
{
    size_t unused = jeff_unused_bytes(j), header = j->spare ? 0 : sizeof(struct jeff_block), largest;
    largest = unused > header ? (unused - header) & ~(size_t)(ALIGN - 1) : 0;
    uint32_t n = j->filled ? j->lists[63 - __builtin_clzll(j->filled)] : 0;
    for (; n; n = links_of(j, n)->next)
        if (jeff_header(j, n)->size > largest)
            largest = jeff_header(j, n)->size;
    return largest;
}
