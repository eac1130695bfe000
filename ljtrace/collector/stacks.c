/* stacks.c - define the frames of code addresses and the stacks made of them, each once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/stacks.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Make room for a node of this number. */
static void grow_nodes(struct stacks *s, uint32_t number)
{
    const uint32_t had = s->node_capacity;
    if (number < had)
        return;
    s->node_capacity = 2 * number + 1024;
    s->nodes = grow(s->nodes, s->node_capacity, sizeof *s->nodes);
    memset(s->nodes + had, 0, (s->node_capacity - had) * sizeof *s->nodes);
}

void stacks_init(struct stacks *s, struct mt_writer *w)
{
    memset(s, 0, sizeof *s);
    s->writer = w;
    grow_nodes(s, 0);
}

void stacks_free(struct stacks *s)
{
    map_clear(&s->frame_of);
    free(s->frames);
    free(s->last);
    free(s->nodes);
}

static bool same_frame(const struct mt_frame *a, const struct mt_frame *b)
{
    return a->ip == b->ip && a->function == b->function && a->file == b->file && a->object == b->object &&
           a->line == b->line && a->defined == b->defined && a->nth == b->nth && a->trace == b->trace &&
           a->kind == b->kind && a->approximate == b->approximate;
}

/* Does this address have exactly these frames? */
static bool same_frames(const struct stack_frame *have, const struct mt_frame *f, uint32_t n)
{
    bool same = have->around == n - 1;
    for (uint32_t i = 0; same && i < n; i++)
        same = same_frame(&have[i].frame, &f[i]);
    return same;
}

/* Returns the index of the first of the frames. */
static uint32_t add_frames(struct stacks *s, uint64_t key, const struct mt_frame *f, uint32_t n)
{
    const uint32_t first = s->count;
    if (first + n > s->capacity) {
        s->capacity = 2 * first + n + 64;
        s->frames = grow(s->frames, s->capacity, sizeof *s->frames);
    }
    for (uint32_t i = 0; i < n; i++)
        s->frames[s->count++] = (struct stack_frame){.frame = f[i], .around = n - 1 - i};
    map_set(&s->frame_of, key, first);
    return first;
}

void stacks_define(struct stacks *s, uint64_t key, const struct mt_frame *f, uint32_t n)
{
    uint32_t first;
    const bool known = map_get(&s->frame_of, key, &first);
    if (known && same_frames(&s->frames[first], f, n))
        return;
    add_frames(s, key, f, n);
    if (!known)
        return;
    memset(s->cache, 0, sizeof s->cache);
    s->last_count = 0;
    s->meanings++;
}

void stacks_leave_out(struct stacks *s, uint64_t key)
{
    uint32_t first;
    if (map_get(&s->frame_of, key, &first))
        s->frames[first].is_recorders = true;
}

/* The index of the innermost frame of a code address. An address without a frame gets one without a name. */
static uint32_t find(struct stacks *s, uint64_t ip)
{
    uint32_t first;
    return map_get(&s->frame_of, ip, &first) ? first : add_frames(s, ip, &(struct mt_frame){.ip = ip}, 1);
}

/* The id of a frame, which is written if it was not used before. */
static uint32_t id_of(struct stacks *s, uint32_t index)
{
    struct stack_frame *f = &s->frames[index];
    if (!f->id)
        f->id = mt_writer_frame(s->writer, &f->frame);
    return f->id;
}

uint32_t stacks_frame(struct stacks *s, uint64_t ip)
{
    return id_of(s, find(s, ip));
}

/* How many addresses, from the outermost on, this stack has in common with the last one. */
static uint32_t common(const struct stacks *s, const uint64_t *ips, uint32_t n)
{
    uint32_t same = 0;
    while (same < n && same < s->last_count && s->last[same].ip == ips[n - 1 - same])
        same++;
    return same;
}

/* Is this code left out at a place that is not the innermost? */
static bool is_left_out(struct stacks *s, uint64_t ip)
{
    const uint32_t first = find(s, ip); /* this may move the frames */
    return s->frames[first].is_recorders;
}

/* The stack with the frames of a code address added to it. */
static uint32_t with_address(struct stacks *s, uint32_t stack, uint64_t ip)
{
    const uint32_t first = find(s, ip);
    for (uint32_t i = s->frames[first].around + 1; i-- > 0;)
        stack = mt_writer_stack(s->writer, stack, id_of(s, first + i));
    return stack;
}

static uint32_t build(struct stacks *s, const uint64_t *ips, uint32_t n)
{
    const uint32_t same = common(s, ips, n);
    uint32_t stack = same ? s->last[same - 1].stack : 0;
    if (n > s->last_capacity)
        s->last = grow(s->last, s->last_capacity = n, sizeof *s->last);
    for (uint32_t k = same; k < n; k++) {
        const uint64_t ip = ips[n - 1 - k];
        if (k == n - 1 || !is_left_out(s, ip))
            stack = with_address(s, stack, ip);
        s->last[k] = (struct stack_step){ip, stack};
    }
    s->last_count = is_left_out(s, ips[0]) ? n - 1 : n;
    return stack;
}

uint32_t stacks_intern(struct stacks *s, const uint64_t *ips, uint32_t n)
{
    if (n == 0)
        return 0;
    uint64_t hash = XXH3_64bits(ips, n * sizeof *ips) | 1; /* 0 marks an empty entry */
    struct stack_entry *entry = &s->cache[hash >> 50];
    if (entry->hash != hash)
        *entry = (struct stack_entry){hash, build(s, ips, n)};
    return entry->stack;
}

void stacks_resolve(struct stacks *s, uint32_t number)
{
    struct stack_node *n = &s->nodes[number];
    if (!n->ip || n->meanings == s->meanings)
        return;
    stacks_resolve(s, n->parent);
    const uint32_t parent = s->nodes[n->parent].outside;
    n->whole = with_address(s, parent, n->ip);
    n->outside = is_left_out(s, n->ip) ? parent : n->whole;
    n->meanings = s->meanings;
}

void stacks_node(struct stacks *s, uint32_t number, uint32_t parent, uint64_t ip)
{
    grow_nodes(s, number);
    s->nodes[number] = (struct stack_node){.ip = ip, .parent = parent, .meanings = s->meanings - 1};
    stacks_resolve(s, number);
}
