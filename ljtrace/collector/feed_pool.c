/* feed_pool.c - handles the blocks of pools (--pool-fn).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * All pools that were made at one place and have one name are one heap of the trace. So there are as many heaps as places,
 * however many pools a server makes. The blocks of each pool are a list here, since they end with it, and so are the pools that
 * were made in it. A block may itself be a pool, which ends with the block. But the first block in a pool may have the pool's
 * address, too, and that is no such block.
 */
#include "ljtrace/collector/feed_impl.h"
#include "ljtrace/protocol/pool_functions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { NONE = UINT32_MAX, NAME_BYTES = 600, FEWEST = 1024, NAMES_MOST = 2000 };
#define OTHER_NAMES "(other names)"

/* A block of a pool. The hash table has chains, and so have the pools. */
struct pool_block {
    uint64_t addr;
    uint64_t caller; /* the code address of the call that made it */
    uint32_t pool;
    uint32_t next_here;    /* in the chain of the table, or in that of unused ones */
    uint32_t before, next; /* in the pool */
    uint32_t heap, name;
};

/* A pool. Its blocks and the pools in it are chains. */
struct pool {
    uint64_t addr;
    uint64_t caller; /* the code address of the call that made it; 0 = nobody saw it */
    uint32_t name;
    uint32_t heap; /* NONE: it had no block so far */
    uint32_t first, first_inside;
    uint32_t parent, before, next; /* the pool it is in, and its neighbours there; NONE */
    uint32_t waiting;              /* the next one that ends, too */
    bool is_waiting;
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

/* The block is the first one of its pool from here on. */
static void put_first(struct feed_pools *p, uint32_t i, uint32_t pool)
{
    struct pool_block *b = &p->blocks[i];
    b->pool = pool;
    b->before = NONE;
    b->next = p->pools[pool].first;
    if (b->next != NONE)
        p->blocks[b->next].before = i;
    p->pools[pool].first = i;
}

static void leave_pool(struct feed_pools *p, uint32_t i)
{
    const struct pool_block *b = &p->blocks[i];
    if (b->before == NONE)
        p->pools[b->pool].first = b->next;
    else
        p->blocks[b->before].next = b->next;
    if (b->next != NONE)
        p->blocks[b->next].before = b->before;
}

static void take_out(struct feed_pools *p, uint32_t *at)
{
    const uint32_t i = *at;
    *at = p->blocks[i].next_here;
    leave_pool(p, i);
    p->blocks[i].next_here = p->unused;
    p->unused = i;
}

/* A block that is in no pool yet, whose other fields are those of b. Returns its index. */
static uint32_t put_in(struct feed_pools *p, const struct pool_block *b)
{
    if (!p->room || p->unused == NONE)
        resize_table(p);
    const uint32_t i = p->unused, slot = slot_of(p, b->addr);
    p->unused = p->blocks[i].next_here;
    p->blocks[i] = *b;
    p->blocks[i].next_here = p->chains[slot];
    p->chains[slot] = i;
    return i;
}

/* -- pools within pools -- */

static void leave_parent(struct feed_pools *p, uint32_t i)
{
    struct pool *c = &p->pools[i];
    if (c->parent == NONE)
        return;
    if (c->before == NONE)
        p->pools[c->parent].first_inside = c->next;
    else
        p->pools[c->before].next = c->next;
    if (c->next != NONE)
        p->pools[c->next].before = c->before;
    c->parent = NONE;
}

static void enter_parent(struct feed_pools *p, uint32_t i, uint32_t parent)
{
    struct pool *c = &p->pools[i];
    leave_parent(p, i);
    if (i == parent)
        return;
    c->parent = parent;
    c->before = NONE;
    c->next = p->pools[parent].first_inside;
    if (c->next != NONE)
        p->pools[c->next].before = i;
    p->pools[parent].first_inside = i;
}

/* The pool that is known at this address; NONE. */
static uint32_t known_pool(const struct feed_pools *p, uint64_t addr)
{
    uint32_t number;
    return map_get(&p->pool_of, addr, &number) ? number : NONE;
}

/* The pool at this address. */
static uint32_t pool_of(struct feed_pools *p, uint64_t addr)
{
    const uint32_t number = known_pool(p, addr);
    if (number != NONE)
        return number;
    if (p->count == p->pool_room) {
        p->pool_room = 2 * p->pool_room + FEWEST;
        p->pools = grow(p->pools, p->pool_room, sizeof *p->pools);
    }
    p->pools[p->count] = (struct pool){
        .addr = addr, .heap = NONE, .first = NONE, .first_inside = NONE, .parent = NONE, .waiting = NONE};
    map_set(&p->pool_of, addr, p->count);
    return p->count++;
}

/* How the pool was made is not known any more. */
static void forget_origin(struct pool *p)
{
    p->caller = 0;
    p->name = 0;
    p->heap = NONE;
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

static uint32_t new_name(struct feed_pools *p, const char *text, uint32_t bytes, uint64_t key)
{
    const uint32_t number = ++p->name_count;
    if (!p->names)
        p->names = grow(NULL, NAMES_MOST + 1, sizeof *p->names);
    p->names[0] = NULL;
    p->names[number] = grow(NULL, bytes + 1, 1);
    memcpy(p->names[number], text, bytes);
    p->names[number][bytes] = 0;
    map_set(&p->name_of, key, number);
    return number;
}

/* The number of a name. When there are too many, all further ones are the last. */
static uint32_t intern(struct feed_pools *p, const char *text, uint32_t bytes)
{
    const uint64_t key = XXH3_64bits(text, bytes);
    uint32_t number;
    if (!bytes)
        return 0;
    if (map_get(&p->name_of, key, &number))
        return number;
    if (p->name_count == NAMES_MOST)
        return NAMES_MOST;
    return p->name_count < NAMES_MOST - 1 ? new_name(p, text, bytes, key)
                                          : new_name(p, OTHER_NAMES, sizeof OTHER_NAMES - 1, key);
}

static void name_heap(struct feed *f, uint32_t heap, uint64_t caller, uint32_t name, bool is_none)
{
    const struct feed_pools *p = &f->pools;
    char key[40], text[NAME_BYTES];
    int n = snprintf(text, sizeof text, "%s%s%s", name ? p->names[name] : "", name ? ", " : "",
                     is_none  ? "in no pool"
                     : caller ? "pools of "
                              : "pools from before");
    if (caller && !is_none)
        describe(f, caller, text + n, sizeof text - (size_t)n);
    snprintf(key, sizeof key, "heap_name.%" PRIu32, heap);
    mt_writer_info(f->writer, key, text);
}

/* The heap of pools that have this name and are made by the caller at this code address; 0 = nobody saw how they were made. */
static uint32_t heap_of_place(struct feed *f, uint64_t caller, uint32_t name, bool is_none)
{
    struct feed_pools *p = &f->pools;
    const uint64_t place[] = {caller, name, is_none}, key = XXH3_64bits(place, sizeof place);
    uint32_t heap;
    if (map_get(&p->heap_of, key, &heap))
        return heap;
    heap = mt_writer_heap(f->writer, &(struct mt_heap){.id = ++p->heaps, .kind = MT_HEAP_CUSTOM});
    map_set(&p->heap_of, key, heap);
    name_heap(f, heap, caller, name, is_none);
    return heap;
}

/* The heap of a pool. If it is a block, what is known of that says it. */
static uint32_t heap_of(struct feed *f, uint32_t number)
{
    struct feed_pools *p = &f->pools;
    struct pool *pool = &p->pools[number];
    if (pool->heap != NONE)
        return pool->heap;
    const uint32_t *block = pool->caller ? NULL : find(p, pool->addr);
    if (block) {
        pool->caller = p->blocks[*block].caller;
        pool->name = p->blocks[*block].name;
    }
    return pool->heap = heap_of_place(f, pool->caller, pool->name, !pool->addr);
}

/* -- events -- */

/* The block ends. What is in it, if it is a pool, does not. */
static void end_block(struct feed *f, uint32_t *known, uint32_t stack)
{
    const struct pool_block *b = &f->pools.blocks[*known];
    mt_writer_lacks_news(f->writer, true); /* it may have ended with the memory around it */
    mt_writer_block_free(f->writer, b->addr, b->heap, stack);
    take_out(&f->pools, known);
}

/* One more pool ends. */
static void let_end(struct feed_pools *p, uint32_t number, uint32_t *first)
{
    struct pool *pool = &p->pools[number];
    if (pool->is_waiting)
        return;
    pool->is_waiting = true;
    pool->waiting = *first;
    *first = number;
}

/* All blocks of the pool end, and what is in them, and the pools in it. There may be a million, one in another. */
static void empty(struct feed *f, uint32_t number, uint32_t stack)
{
    struct feed_pools *p = &f->pools;
    uint32_t first = NONE, inside;
    let_end(p, number, &first);
    while (first != NONE) {
        const uint32_t ending = first;
        struct pool *pool = &p->pools[ending];
        first = pool->waiting;
        pool->is_waiting = false;
        while ((inside = pool->first_inside) != NONE) {
            leave_parent(p, inside);
            let_end(p, inside, &first);
        }
        while (pool->first != NONE) {
            const uint64_t addr = p->blocks[pool->first].addr;
            end_block(f, find(p, addr), stack);
            if ((inside = known_pool(p, addr)) != NONE && inside != ending) {
                forget_origin(&p->pools[inside]);
                let_end(p, inside, &first);
            }
        }
    }
}

/* If a block at this address, which is or was in `pool`, is itself a pool, what is in it ends, and so does that pool. */
static void end_inside(struct feed *f, uint64_t addr, uint32_t pool, uint32_t stack)
{
    const uint32_t inside = known_pool(&f->pools, addr);
    if (inside == NONE || inside == pool)
        return;
    empty(f, inside, stack);
    forget_origin(&f->pools.pools[inside]);
}

/* A block begins. If there is one at this address, its end was not seen; the writer ends it, too. */
static void make_block(struct feed *f, const struct ring_pool *r, uint32_t pool, uint32_t name,
                       uint32_t stack)
{
    struct feed_pools *p = &f->pools;
    const struct pool_block b = {
        .addr = r->block, .caller = caller_of(f, &r->stack), .heap = heap_of(f, pool), .name = name};
    uint32_t *known = find(p, r->block);
    if (known)
        take_out(p, known);
    mt_writer_block_new(f->writer, b.addr, r->size, b.heap, MT_HOW_CUSTOM, stack);
    put_first(p, put_in(p, &b), pool);
}

/* What was in the pool at this address is in the one at another. */
static void rename_pool(struct feed_pools *p, uint64_t from, uint64_t to)
{
    const uint32_t moved = known_pool(p, from), there = pool_of(p, to);
    map_set(&p->pool_of, to, moved);
    map_set(&p->pool_of, from, there);
    p->pools[moved].addr = to;
    p->pools[there].addr = from;
    forget_origin(&p->pools[there]);
}

/* A block that is resized remains in its pool, and what is in it does. */
static void resize_block(struct feed *f, const struct ring_pool *r, uint32_t stack)
{
    struct feed_pools *p = &f->pools;
    uint32_t *known = find(p, r->old);
    const uint32_t pool = known ? p->blocks[*known].pool : pool_of(p, r->pool),
                   name = known ? p->blocks[*known].name : 0;
    if (known)
        end_block(f, known, stack);
    if (r->block != r->old)
        end_inside(f, r->block, pool, stack);
    if (r->block != r->old && known_pool(p, r->old) != NONE && known_pool(p, r->old) != pool)
        rename_pool(p, r->old, r->block);
    make_block(f, r, pool, name, stack);
}

static void move(struct feed_pools *p, uint64_t what, uint64_t to)
{
    const uint32_t *block = find(p, what);
    const uint32_t pool = known_pool(p, what), parent = pool_of(p, to);
    if (block) {
        leave_pool(p, *block);
        put_first(p, *block, parent);
    }
    if (pool != NONE && p->pools[pool].parent != NONE)
        enter_parent(p, pool, parent);
}

static void make_pool(struct feed *f, const struct ring_pool *r, uint32_t stack)
{
    struct feed_pools *p = &f->pools;
    const uint32_t pool = pool_of(p, r->pool), parent = r->block ? pool_of(p, r->block) : NONE;
    empty(f, pool, stack);
    forget_origin(&p->pools[pool]);
    p->pools[pool].caller = caller_of(f, &r->stack);
    leave_parent(p, pool);
    if (parent != NONE)
        enter_parent(p, pool, parent);
}

static void free_block(struct feed *f, uint64_t addr, uint32_t stack)
{
    uint32_t *known = find(&f->pools, addr), pool = NONE;
    if (known) {
        pool = f->pools.blocks[*known].pool;
        end_block(f, known, stack);
    }
    end_inside(f, addr, pool, stack);
}

const char *handle_pool(struct feed *f, const struct ring_pool *r)
{
    const uint32_t stack = stack_of(f, &r->stack);
    uint32_t pool;
    feed_time(f, r->instructions);
    if (r->what >= POOL_WHATS || r->what == POOL_NAME)
        return "event of a pool that is not known";
    if (r->what == POOL_MAKE) {
        make_pool(f, r, stack);
    } else if (r->what == POOL_ALLOC) {
        pool = pool_of(&f->pools, r->pool);
        end_inside(f, r->block, pool, stack);
        make_block(f, r, pool, 0, stack);
    } else if (r->what == POOL_RESIZE) {
        resize_block(f, r, stack);
    } else if (r->what == POOL_FREE) {
        free_block(f, r->old, stack);
    } else if (r->what == POOL_MOVE) {
        move(&f->pools, r->block, r->pool);
    } else {
        empty(f, pool_of(&f->pools, r->pool), stack);
    }
    return NULL;
}

const char *handle_pool_name(struct feed *f, const struct ring_pool_name *r)
{
    struct feed_pools *p = &f->pools;
    const uint32_t bytes = r->name.bytes < POOL_TEXT_MOST ? r->name.bytes : POOL_TEXT_MOST;
    const uint32_t name = intern(p, r->name.at, bytes), pool = known_pool(p, r->addr);
    const uint32_t *block = find(p, r->addr);
    if (block)
        p->blocks[*block].name = name;
    if (pool != NONE) {
        p->pools[pool].name = name;
        p->pools[pool].heap = NONE;
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
    map_clear(&f->pools.name_of);
    for (uint32_t i = 1; i <= f->pools.name_count; i++)
        free(f->pools.names[i]);
    free(f->pools.names);
}
