/* example_user.c - an example driver written against the documented user_* functions: best fit.
 *
 * Shows how an allocator comes to steve-replay in the original way; user_shim.c makes the driver of it.
 * The free pieces lie in one list ordered by address; user_malloc takes the smallest piece that is large
 * enough, user_free puts a block back and joins it with its neighbours. Both look through the whole list:
 * simple, and slow where there are many holes. Blocks do not move, so lock and unlock have nothing to do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "plot.h"

#define UNIT ((size_t)16)

struct piece {
    size_t size; /* in bytes, with this header; the block begins after `size` and padding */
    struct piece *next;
};

static char *g_heap, *g_end;
static struct piece *g_free;

bool user_init(uint32_t heap_size, void *heap, char *name)
{
    if (heap_size < 2 * UNIT)
        return false;
    strcpy(name, "example_user");
    g_heap = heap;
    g_end = g_heap + heap_size / UNIT * UNIT;
    g_free = heap;
    g_free->size = (size_t)(g_end - g_heap);
    g_free->next = NULL;
    return true;
}

void user_destroy(void)
{
    g_free = NULL;
}

bool user_handle_oom(int size, uint32_t *op_time)
{
    TIMER_DECL;

    TIMER_START;
    bool ok = false; /* neighbours are always joined: nothing is left to do */
    TIMER_END;
    if (op_time)
        *op_time = TIMER_ELAPSED;
    return ok;
}

/* The link that leads to the smallest piece of at least `need` bytes, or NULL. */
static struct piece **best_fit(size_t need)
{
    struct piece **best = NULL;
    for (struct piece **link = &g_free; *link; link = &(*link)->next)
        if ((*link)->size >= need && (!best || (*link)->size < (*best)->size))
            best = link;
    return best;
}

static void *take(struct piece **link, size_t need)
{
    struct piece *p = *link;
    if (p->size - need >= 2 * UNIT) {
        struct piece *rest = (struct piece *)((char *)p + need);
        rest->size = p->size - need;
        rest->next = p->next;
        *link = rest;
        p->size = need;
    } else {
        *link = p->next;
    }
    return (char *)p + UNIT;
}

void *user_malloc(int size, uint32_t handle, uint32_t *op_time, void **memaddress)
{
    TIMER_DECL;

    TIMER_START;
    size_t need = ((size_t)size + UNIT - 1) / UNIT * UNIT + UNIT;
    struct piece **link = best_fit(need < 2 * UNIT ? 2 * UNIT : need);
    void *block = link ? take(link, need < 2 * UNIT ? 2 * UNIT : need) : NULL;
    TIMER_END;
    if (op_time)
        *op_time = TIMER_ELAPSED;
    if (memaddress)
        *memaddress = block;
    return block;
}

/* Join b to a if it follows directly. */
static void join(struct piece *a, struct piece *b)
{
    if (b && (char *)a + a->size == (char *)b) {
        a->size += b->size;
        a->next = b->next;
    }
}

static void put_back(struct piece *p)
{
    struct piece *below = NULL, **link = &g_free;
    for (; *link && *link < p; link = &(*link)->next)
        below = *link;
    p->next = *link;
    *link = p;
    join(p, p->next);
    if (below)
        join(below, p);
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
    struct piece *last = g_free;
    while (last && last->next)
        last = last->next;
    return last && (char *)last + last->size == g_end ? (void *)last : (void *)g_end;
}
