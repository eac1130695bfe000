/* stacks.c - see stacks.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/stacks.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void stacks_init(struct stacks *s, struct mt_writer *w)
{
    memset(s, 0, sizeof *s);
    s->writer = w;
}

void stacks_free(struct stacks *s)
{
    map_clear(&s->frame_of);
    free(s->frame);
    for (uint32_t i = 0; i <= RING_KEPT_STACKS; i++)
        free(s->kept[i].ip);
}

static bool same_frame(const struct mt_frame *a, const struct mt_frame *b)
{
    return a->ip == b->ip && a->function == b->function && a->file == b->file && a->object == b->object &&
           a->line == b->line && a->defined == b->defined && a->nth == b->nth && a->trace == b->trace && a->kind == b->kind &&
           a->approximate == b->approximate;
}

static uint32_t add_frame(struct stacks *s, uint64_t key, const struct mt_frame *f)
{
    uint32_t id = mt_writer_frame(s->writer, f);
    if (id >= s->capacity) {
        s->capacity = 2 * id + 64;
        s->frame = grow(s->frame, s->capacity, sizeof *s->frame);
    }
    s->frame[id] = *f;
    map_set(&s->frame_of, key, id);
    return id;
}

void stacks_define(struct stacks *s, const struct mt_frame *f)
{
    stacks_define_as(s, f->ip, f);
}

void stacks_define_as(struct stacks *s, uint64_t key, const struct mt_frame *f)
{
    uint32_t id;
    if (!map_get(&s->frame_of, key, &id)) {
        add_frame(s, key, f);
        return;
    }
    if (same_frame(&s->frame[id], f))
        return;
    add_frame(s, key, f);
    memset(s->cache, 0, sizeof s->cache);
    s->meanings++;
}

uint32_t stacks_frame(struct stacks *s, uint64_t ip)
{
    uint32_t id;
    struct mt_frame unnamed = {.ip = ip};
    return map_get(&s->frame_of, ip, &id) ? id : add_frame(s, ip, &unnamed);
}

static uint32_t build(struct stacks *s, const uint64_t *ips, uint32_t n)
{
    uint32_t stack = 0;
    while (n-- > 0)
        stack = mt_writer_stack(s->writer, stack, stacks_frame(s, ips[n]));
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

void stacks_keep(struct stacks *s, uint32_t number, const uint64_t *ips, uint32_t n)
{
    struct stack_kept *k = &s->kept[number];
    if (n > k->capacity)
        k->ip = grow(k->ip, k->capacity = n, sizeof *k->ip);
    memcpy(k->ip, ips, n * sizeof *ips);
    k->count = n;
    k->stack = stacks_intern(s, ips, n);
    k->meanings = s->meanings;
}

uint32_t stacks_kept(struct stacks *s, uint32_t number)
{
    struct stack_kept *k = &s->kept[number];
    if (k->meanings != s->meanings) {
        k->stack = stacks_intern(s, k->ip, k->count);
        k->meanings = s->meanings;
    }
    return k->stack;
}
