/* jeff.c - Jeff's malloc, free and locks. Compaction is in jeff_compact.c.
 *
 * Free blocks are in one list per power of two. The search for a block examines a few blocks of the list in which a
 * fitting block may be. Every block of the lists above fits. If these are empty, new memory above all blocks is used,
 * and only then the rest of the first list.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/jeff.h"

#include <string.h>

enum { ALIGN = 16, LOOKS = 16 };

/* Stored in the memory of a free block: its neighbours in the list of its slot. */
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

static unsigned slot_of(size_t size)
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

size_t jeff_gap(const struct jeff *j)
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
    if (jeff_gap(j) < sizeof *b || j->headers == UINT32_MAX)
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

static void push(struct jeff *j, struct jeff_block *b)
{
    unsigned slot = slot_of(jeff_usable(b));
    uint32_t number = number_of(j, b), head = j->slots[slot];
    *links_of(j, number) = (struct links){head, 0};
    if (head)
        links_of(j, head)->prev = number;
    j->slots[slot] = number;
    j->filled |= 1ull << slot;
    j->free_bytes += jeff_usable(b);
    j->free_blocks++;
}

static void pull(struct jeff *j, struct jeff_block *b)
{
    unsigned slot = slot_of(jeff_usable(b));
    struct links l = *links_of(j, number_of(j, b));
    if (l.next)
        links_of(j, l.next)->prev = l.prev;
    if (l.prev)
        links_of(j, l.prev)->next = l.next;
    else if (!(j->slots[slot] = l.next))
        j->filled &= ~(1ull << slot);
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
    push(j, b);
    return true;
}

void jeff_forget_free(struct jeff *j)
{
    memset(j->slots, 0, sizeof j->slots);
    j->filled = j->free_bytes = j->free_blocks = 0;
}

void jeff_remove_forgotten(struct jeff *j, struct jeff_block *b)
{
    unchain(j, b);
    drop_header(j, b);
}

void jeff_remove_free(struct jeff *j, struct jeff_block *b)
{
    pull(j, b);
    unchain(j, b);
    drop_header(j, b);
}

/* Find a block in the list of a slot that fits, examining at most `looks` blocks. */
static struct jeff_block *look(const struct jeff *j, unsigned slot, size_t need, size_t looks)
{
    for (uint32_t n = j->slots[slot]; n && looks; n = links_of(j, n)->next, looks--)
        if (jeff_header(j, n)->size >= need)
            return jeff_header(j, n);
    return NULL;
}

static struct jeff_block *find_quickly(const struct jeff *j, size_t need)
{
    unsigned slot = slot_of(need);
    struct jeff_block *b = look(j, slot, need, LOOKS);
    uint64_t above = j->filled & ~((2ull << slot) - 1);
    if (b || !above)
        return b;
    return jeff_header(j, j->slots[__builtin_ctzll(above)]);
}

/* Make a free block a used one. The rest becomes a free block above it, if there is a header for it. */
static struct jeff_block *use(struct jeff *j, struct jeff_block *b, size_t need)
{
    size_t size = jeff_usable(b);
    pull(j, b);
    if (size > need && jeff_insert_free(j, b->memory + need, b->memory + size, jeff_header(j, b->above)))
        size = need;
    b->size = size | JEFF_USED;
    return b;
}

static struct jeff_block *take_fresh(struct jeff *j, size_t need)
{
    struct jeff_block *b = new_header(j);
    if (b && need > jeff_gap(j)) {
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
    struct jeff_block *b = find_quickly(j, need);
    if (b)
        return use(j, b, need);
    if ((b = take_fresh(j, need)))
        return b;
    b = look(j, slot_of(need), need, SIZE_MAX);
    return b ? use(j, b, need) : NULL;
}

static bool is_free(const struct jeff_block *b)
{
    return b && !(b->size & JEFF_USED);
}

/* Join b, which is in no slot, with its free neighbours. */
static void join(struct jeff *j, struct jeff_block *b)
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

/* Return b, which is in no slot and topmost, and free blocks below it to the gap. */
static void lower_top(struct jeff *j, struct jeff_block *b)
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
        join(j, b);
    if (b->above)
        push(j, b);
    else
        lower_top(j, b);
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
    size_t gap = jeff_gap(j), header = j->spare ? 0 : sizeof(struct jeff_block), largest;
    largest = gap > header ? (gap - header) & ~(size_t)(ALIGN - 1) : 0;
    uint32_t n = j->filled ? j->slots[63 - __builtin_clzll(j->filled)] : 0;
    for (; n; n = links_of(j, n)->next)
        if (jeff_header(j, n)->size > largest)
            largest = jeff_header(j, n)->size;
    return largest;
}
