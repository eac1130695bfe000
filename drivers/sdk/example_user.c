/* example_user.c - an example driver written with the user_* functions (user_driver.h): bins of free pieces.
 *
 * It shows how a driver is written with the first Steve's interface; user_shim.c makes the driver of it. Each piece of
 * the heap begins with its size and the size of the piece below, so that user_free can join neighbours without a
 * search. Free pieces are in lists, one for each power of two. user_malloc uses the first piece of its list that is
 * large enough, otherwise one of the next list that is not empty. Blocks do not move, so lock and unlock do nothing.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "plot.h"

#define UNIT ((size_t)16)
#define LEAST (2 * UNIT) /* minimum size of a piece */
#define USED ((size_t)1) /* flag in size */
enum { BINS = 32 };

struct piece {
    /* sizes of the piece below (0: none) and of this one, in bytes, with headers */
    size_t below, size;
    struct piece *next, *prev; /* neighbours in the list if it is free; otherwise the block begins here */
};

static char *g_heap;
static struct piece *g_end; /* end of the heap: not a piece, but marked as used */
static struct piece *g_bins[BINS];

static struct piece *above(struct piece *p)
{
    return (struct piece *)((char *)p + (p->size & ~USED));
}

static void set_size(struct piece *p, size_t size, size_t used)
{
    p->size = size | used;
    above(p)->below = size;
}

static unsigned bin_of(size_t size)
{
    return 31u - (unsigned)__builtin_clz((unsigned)size);
}

static void put_in(struct piece *p)
{
    struct piece **bin = &g_bins[bin_of(p->size)];
    p->prev = NULL;
    p->next = *bin;
    if (*bin)
        (*bin)->prev = p;
    *bin = p;
}

static void take_out(struct piece *p)
{
    if (p->next)
        p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        g_bins[bin_of(p->size)] = p->next;
}

bool user_init(uint32_t heap_size, void *heap, char *name)
{
    size_t size = heap_size / UNIT * UNIT;
    if (size < LEAST + UNIT)
        return false;
    strcpy(name, "example_user");
    g_heap = heap;
    g_end = (struct piece *)(g_heap + size - UNIT);
    g_end->size = USED;
    struct piece *all = heap;
    all->below = 0;
    set_size(all, size - UNIT, 0);
    put_in(all);
    return true;
}

void user_destroy(void)
{
    memset(g_bins, 0, sizeof g_bins);
}

bool user_handle_oom(int size, uint32_t *op_time)
{
    TIMER_DECL;

    TIMER_START;
    bool ok = false; /* neighbours are always joined, so nothing is left to do */
    TIMER_END;
    if (op_time)
        *op_time = TIMER_ELAPSED;
    return ok;
}

/* Find a free piece of at least `need` bytes, or NULL. */
static struct piece *find(size_t need)
{
    for (unsigned bin = bin_of(need); bin < BINS; bin++)
        for (struct piece *p = g_bins[bin]; p; p = p->next)
            if (p->size >= need)
                return p;
    return NULL;
}

/* Make a free piece a used one. The rest becomes a piece of its own. */
static void *use(struct piece *p, size_t need)
{
    size_t rest = p->size - need;
    take_out(p);
    if (rest >= LEAST) {
        set_size(p, need, USED);
        set_size(above(p), rest, 0);
        put_in(above(p));
    } else {
        p->size |= USED;
    }
    return (char *)p + UNIT;
}

void *user_malloc(int size, uint32_t handle, uint32_t *op_time, void **memaddress)
{
    TIMER_DECL;

    TIMER_START;
    size_t need = ((size_t)size + UNIT - 1) / UNIT * UNIT + UNIT;
    struct piece *p = find(need < LEAST ? LEAST : need);
    void *block = p ? use(p, need < LEAST ? LEAST : need) : NULL;
    TIMER_END;
    if (op_time)
        *op_time = TIMER_ELAPSED;
    if (memaddress)
        *memaddress = block;
    return block;
}

/* Make a used piece a free one, joined with its free neighbours. */
static void put_back(struct piece *p)
{
    struct piece *next = above(p), *before = (struct piece *)((char *)p - p->below);
    size_t size = p->size & ~USED;
    if (!(next->size & USED)) {
        take_out(next);
        size += next->size;
    }
    if (p->below && !(before->size & USED)) {
        take_out(before);
        size += before->size;
        p = before;
    }
    set_size(p, size, 0);
    put_in(p);
}

void user_free(void *ptr, uint32_t handle, uint32_t *op_time)
{
    TIMER_DECL;

    TIMER_START;
    put_back((struct piece *)((char *)ptr - UNIT));
    TIMER_END;
    if (op_time)
        *op_time = TIMER_ELAPSED;
}

void *user_lock(void *ptr)
{
    return ptr;
}

void user_unlock(void *ptr)
{
}

void *user_highest_address(bool full_calculation)
{
    struct piece *last = (struct piece *)((char *)g_end - g_end->below);
    return last->size & USED ? g_end : last;
}
