/* feed_pool.c - handles the blocks of pools (--pool-fn).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * All pools that were made at one place are one heap of the trace, which is named by it. So there are as many heaps as places,
 * however many pools a server makes. The blocks of each pool are a list here, since they end with it.
 */
#include "ljtrace/collector/feed_impl.h"
#include "ljtrace/protocol/pool_functions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { NONE = UINT32_MAX, NAME_BYTES = 500, FEWEST = 1024 };

/* A block of a pool. The hash table has chains, and so have the pools. */
struct pool_block {
    uint64_t addr;
    uint32_t pool;
    uint32_t next_here;    /* in the chain of the table, or in that of unused ones */
    uint32_t before, next; /* in the pool */
};

struct pool {
    uint32_t heap, first; /* of its blocks */
};

static uint32_t slot_of(const struct feed_pools *p, uint64_t addr)
{
    return (uint32_t)(XXH3_64bits(&addr, sizeof addr) & (p->room - 1));
}

static void resize_table(struct feed_pools *p)
{
    const uint32_t before = p->room;
    p->room = before ? 2 * before : FEWEST;
    p->blocks = grow(p->blocks, p->room, sizeof *p->blocks);
    p->chains = grow(p->chains, p->room, sizeof *p->chains);
    for (uint32_t i = 0; i < p->room; i++)
        p->chains[i] = NONE;
    for (uint32_t i = 0; i < before; i++) { /* all are in use */
        const uint32_t slot = slot_of(p, p->blocks[i].addr);
        p->blocks[i].next_here = p->chains[slot];
        p->chains[slot] = i;
    }
    p->unused = NONE;
    for (uint32_t i = p->room; i-- > before;) {
        p->blocks[i].next_here = p->unused;
        p->unused = i;
    }
}

static uint32_t *find(const struct feed_pools *p, uint64_t addr)
{
    uint32_t *at = p->room ? &p->chains[slot_of(p, addr)] : NULL;
    while (at && *at != NONE && p->blocks[*at].addr != addr)
        at = &p->blocks[*at].next_here;
    return at && *at != NONE ? at : NULL;
}

static void take_out(struct feed_pools *p, uint32_t *at)
{
    const uint32_t i = *at;
    struct pool_block *b = &p->blocks[i];
    *at = b->next_here;
    if (b->before == NONE)
        p->pools[b->pool].first = b->next;
    else
        p->blocks[b->before].next = b->next;
    if (b->next != NONE)
        p->blocks[b->next].before = b->before;
    b->next_here = p->unused;
    p->unused = i;
}

static void put_in(struct feed_pools *p, uint64_t addr, uint32_t pool)
{
    uint32_t *known = find(p, addr);
    if (known)
        take_out(p, known); /* its end was not seen */
    if (!p->room || p->unused == NONE)
        resize_table(p);
    const uint32_t i = p->unused, slot = slot_of(p, addr), first = p->pools[pool].first;
    p->unused = p->blocks[i].next_here;
    p->blocks[i] = (struct pool_block){addr, pool, p->chains[slot], NONE, first};
    p->chains[slot] = i;
    if (first != NONE)
        p->blocks[first].before = i;
    p->pools[pool].first = i;
}

/* -- heaps -- */

static uint32_t stack_of(struct feed *f, const struct raw_stack *s)
{
    return s->number ? stacks_numbered(&f->stacks, s->number) : stacks_intern(&f->stacks, s->ips, s->depth);
}

/* The code address of the caller of the innermost function of a stack; 0 = there is none. */
static uint64_t caller_of(const struct feed *f, const struct raw_stack *s)
{
    if (!s->number)
        return s->depth > 1 ? s->ips[1] : 0;
    const uint32_t parent = s->number < f->stacks.node_capacity ? f->stacks.nodes[s->number].parent : 0;
    return parent < f->stacks.node_capacity ? f->stacks.nodes[parent].ip : 0;
}

/* The function and the line at a code address. */
static void describe(struct feed *f, uint64_t ip, char *to, size_t room)
{
    const struct feed_module *module = feed_module_at(f, ip);
    const struct debuginfo_frame *found = NULL;
    const uint64_t in_file = module ? ip - module->bias : 0;
    snprintf(to, room, "unknown code");
    if (!module || !module->file)
        return;
    const char *function = debuginfo_function(f->debuginfo, module->file, in_file);
    const int n = snprintf(to, room, "%s", function ? function : "unknown code");
    if (n < 0 || (size_t)n >= room || !debuginfo_find(f->debuginfo, module->file, in_file, &found) ||
        !found[0].line)
        return;
    const char *name = strrchr(found[0].file, '/');
    snprintf(to + n, room - (size_t)n, " (%s:%" PRIu32 ")", name ? name + 1 : found[0].file, found[0].line);
}

/* The heap of pools that are made by the caller at this code address; 0 = nobody saw how they were made. */
static uint32_t heap_of_place(struct feed *f, uint64_t caller)
{
    struct feed_pools *p = &f->pools;
    char key[40], name[NAME_BYTES] = "pools from before";
    uint32_t heap;
    if (map_get(&p->heap_of, caller, &heap))
        return heap;
    heap = mt_writer_heap(f->writer, &(struct mt_heap){.id = ++p->places, .kind = MT_HEAP_CUSTOM});
    map_set(&p->heap_of, caller, heap);
    if (caller) {
        const int n = snprintf(name, sizeof name, "pools of ");
        describe(f, caller, name + n, sizeof name - (size_t)n);
    }
    snprintf(key, sizeof key, "heap_name.%" PRIu32, heap);
    mt_writer_info(f->writer, key, name);
    return heap;
}

/* The pool with this address, which is made if nobody has seen how it was. */
static uint32_t pool_of(struct feed *f, uint64_t addr)
{
    struct feed_pools *p = &f->pools;
    uint32_t number;
    if (map_get(&p->pool_of, addr, &number))
        return number;
    if (p->count == p->pool_room) {
        p->pool_room = 2 * p->pool_room + FEWEST;
        p->pools = grow(p->pools, p->pool_room, sizeof *p->pools);
    }
    p->pools[p->count] = (struct pool){heap_of_place(f, 0), NONE};
    map_set(&p->pool_of, addr, p->count);
    return p->count++;
}

/* -- events -- */

/* All blocks of the pool end. */
static void empty(struct feed *f, uint32_t pool, uint32_t stack)
{
    struct feed_pools *p = &f->pools;
    while (p->pools[pool].first != NONE) {
        const uint64_t addr = p->blocks[p->pools[pool].first].addr;
        mt_writer_lacks_news(f->writer, true); /* it may have ended with the memory around it */
        mt_writer_block_free(f->writer, addr, p->pools[pool].heap, stack);
        take_out(p, find(p, addr));
    }
}

static void end_block(struct feed *f, uint64_t addr, uint32_t stack)
{
    struct feed_pools *p = &f->pools;
    uint32_t *known = find(p, addr);
    if (!known)
        return;
    mt_writer_lacks_news(f->writer, true);
    mt_writer_block_free(f->writer, addr, p->pools[p->blocks[*known].pool].heap, stack);
    take_out(p, known);
}

const char *handle_pool(struct feed *f, const struct ring_pool *r)
{
    const uint32_t stack = stack_of(f, &r->stack);
    feed_time(f, r->instructions);
    if (r->what >= POOL_WHATS)
        return "event of a pool that is not known";
    if (r->what == POOL_FREE) {
        end_block(f, r->old, stack);
        return NULL;
    }
    const uint32_t pool = pool_of(f, r->pool);
    if (r->what == POOL_MAKE || r->what == POOL_CLEAR || r->what == POOL_END)
        empty(f, pool, stack);
    if (r->what == POOL_MAKE)
        f->pools.pools[pool].heap = heap_of_place(f, caller_of(f, &r->stack));
    if (r->what == POOL_RESIZE)
        end_block(f, r->old, stack);
    if (r->what == POOL_ALLOC || r->what == POOL_RESIZE) {
        mt_writer_block_new(f->writer, r->block, r->size, f->pools.pools[pool].heap, MT_HOW_CUSTOM, stack);
        put_in(&f->pools, r->block, pool);
    }
    return NULL;
}

void feed_pools_free(struct feed *f)
{
    free(f->pools.blocks);
    free(f->pools.chains);
    free(f->pools.pools);
    map_clear(&f->pools.pool_of);
    map_clear(&f->pools.heap_of);
}
