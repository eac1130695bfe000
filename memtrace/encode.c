/* encode.c - the EVENTS chunk being made; see encode.h and predict.h.
 *
 * encoder_accesses is the hot loop of the recorder's collector. Accesses that are wholly as expected take a
 * short way that never asks the block map: the guess lies in a live block, and blocks do not overlap. Its
 * state is in local variables, and kinds are counted in one register, 21 bits for each, because stores to
 * memory would be the longest dependency of the loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "encode.h"

#include <stdlib.h>
#include <string.h>

bool encoder_init(struct encoder *e)
{
    *e = (struct encoder){0};
    return encoder_site(e, 0, 0);
}

void encoder_destroy(struct encoder *e)
{
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        buffer_free(&e->streams[i]);
    free(e->sites);
}

void encoder_start(struct encoder *e, uint64_t time)
{
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        buffer_reset(&e->streams[i]);
    e->streams[STREAM_RARE].time = time;
    e->epoch++;
    e->prev_site = e->prev_slot = 0;
    e->run = 0;
    e->count = 0;
    site_reset(&e->sites[0], e->epoch, 0);
}

static bool grow_sites(struct encoder *e)
{
    uint32_t capacity = e->site_capacity ? e->site_capacity * 2 : 1024;
    struct site_state *sites = aligned_alloc(64, capacity * sizeof *sites);
    if (!sites)
        return false;
    if (e->site_count)
        memcpy(sites, e->sites, e->site_count * sizeof *sites);
    free(e->sites);
    e->sites = sites;
    e->site_capacity = capacity;
    return true;
}

bool encoder_site(struct encoder *e, uint32_t size, uint8_t kind)
{
    if (e->site_count == e->site_capacity && !grow_sites(e))
        return false;
    e->sites[e->site_count++] = (struct site_state){.size = size, .kind = kind};
    return true;
}

/* Write the token that ends a run. */
static uint8_t *put_token(uint8_t *p, uint64_t run, unsigned misses)
{
    if (run < RUN_LONG) {
        *p++ = (uint8_t)(run << 3 | misses);
        return p;
    }
    *p++ = RUN_LONG << 3 | (uint8_t)misses;
    return uvarint_write(p, run - RUN_LONG);
}

static void code_site(struct encoder *e, struct site_state *prev, uint32_t site)
{
    struct buffer *b = &e->streams[STREAM_SITES];
    b->p = uvarint_write(b->p, site == prev->next[1] ? 0 : (uint64_t)site);
    if (e->sites[site].epoch != e->epoch)
        site_reset(&e->sites[site], e->epoch, e->prev_slot);
    learn_site(prev, site);
}

static void code_slot(struct encoder *e, const struct site_state *s, uint32_t slot)
{
    struct buffer *b = &e->streams[STREAM_SLOTS];
    b->p = uvarint_write(b->p, slot == other_slot(s, e->prev_slot) ? 0 : (uint64_t)slot + 1);
}

static void code_offset(struct encoder *e, uint64_t offset)
{
    struct buffer *b = &e->streams[STREAM_OFFSETS];
    b->p = uvarint_write(b->p, offset);
}

static bool reserve_batch(struct encoder *e, size_t n)
{
    bool ok = true;
    for (unsigned i = STREAM_TOKENS; i <= STREAM_OFFSETS; i++)
        ok &= buffer_reserve(&e->streams[i], (n + 1) * (UVARINT_MAX_BYTES + 1));
    return ok;
}

/* Unpack what the loop counted; returns the sum. */
static uint32_t count_kinds(struct access_counts *counts, uint64_t packed)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < 3; i++) {
        uint32_t n = packed >> 21 * i & ((1 << 21) - 1);
        counts->kinds[MT_LOAD + i] += n;
        sum += n;
    }
    return sum;
}

/* Code an access of which something was not expected; misses so far: MISS_SITE or 0. */
static void code_miss(struct encoder *e, uint32_t site, uint32_t slot, uint64_t offset, unsigned misses)
{
    struct site_state *s = &e->sites[site];
    struct buffer *tokens = &e->streams[STREAM_TOKENS];
    if (slot != guess_slot(s, e->prev_slot)) {
        misses |= MISS_SLOT;
        code_slot(e, s, slot);
    }
    if (offset != guess_offset(s)) {
        misses |= MISS_OFFSET;
        code_offset(e, offset);
    }
    if (misses) {
        tokens->p = put_token(tokens->p, e->run, misses);
        e->run = 0;
    } else {
        e->run++;
    }
    learn_slot(s, e->prev_slot, slot);
    learn_offset(s, offset);
    e->prev_site = site;
    e->prev_slot = slot;
}

/* The general case of an access: is it to a live block, and if so code it. */
static __attribute__((noinline)) bool code_any(struct encoder *e, const struct blockmap *m, uint32_t site,
                                               uint64_t addr)
{
    struct site_state *prev = &e->sites[e->prev_site];
    unsigned misses = site == prev->next[0] ? 0 : MISS_SITE;
    uint32_t slot = blockmap_find(m, addr);
    if (slot == NO_SLOT)
        return false;
    if (misses)
        code_site(e, prev, site);
    code_miss(e, site, slot, addr - m->blocks[slot].base, misses);
    return true;
}

/* The common case, everything as expected: learn and count it in *run. False = not the common case. */
static inline bool code_hit(struct site_state *s, const struct site_state *prev, const struct blockmap *m,
                            uint32_t site, uint32_t prev_slot, uint64_t addr, uint32_t *slot)
{
    uint32_t guess = guess_slot(s, prev_slot);
    uint64_t offset = guess_offset(s);
    if (site != prev->next[0] || guess >= m->used)
        return false;
    const struct block *b = &m->blocks[guess];
    if (addr - b->base != offset || offset >= b->size)
        return false;
    learn_slot_hit(s, prev_slot, guess);
    learn_offset_hit(s, offset);
    *slot = guess;
    return true;
}

static inline uint64_t kind_bit(const struct site_state *s)
{
    return (uint64_t)1 << 21 * (s->kind - MT_LOAD);
}

bool encoder_accesses(struct encoder *e, const struct blockmap *m, const uint32_t *sites,
                      const uint64_t *addrs, size_t n, struct access_counts *counts)
{
    if (!reserve_batch(e, n))
        return false;
    const struct blockmap map = *m; /* a copy, so that no store below can be to it */
    struct site_state *states = e->sites;
    uint32_t invalid = 0, prev_site = e->prev_site, prev_slot = e->prev_slot;
    const uint32_t site_count = e->site_count;
    uint64_t packed = 0, hits = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t site = sites[i];
        if (site - 1 >= site_count - 1) {
            invalid++;
            continue;
        }
        if (code_hit(&states[site], &states[prev_site], &map, site, prev_slot, addrs[i], &prev_slot)) {
            prev_site = site;
            hits++;
        } else {
            e->prev_site = prev_site;
            e->prev_slot = prev_slot;
            e->run += hits;
            hits = 0;
            if (!code_any(e, m, site, addrs[i]))
                continue;
            prev_site = e->prev_site;
            prev_slot = e->prev_slot;
        }
        packed += kind_bit(&states[site]);
    }
    e->prev_site = prev_site;
    e->prev_slot = prev_slot;
    e->run += hits;
    uint32_t coded = count_kinds(counts, packed);
    counts->invalid += invalid;
    counts->foreign += n - coded - invalid;
    e->count += coded;
    return true;
}

struct buffer *encoder_rare(struct encoder *e)
{
    struct buffer *tokens = &e->streams[STREAM_TOKENS];
    if (buffer_reserve(tokens, UVARINT_MAX_BYTES + 1))
        tokens->p = put_token(tokens->p, e->run, 0);
    e->run = 0;
    return &e->streams[STREAM_RARE];
}

uint64_t encoder_bytes(const struct encoder *e)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < EVENT_STREAMS; i++) {
        if (e->streams[i].failed)
            return UINT64_MAX;
        n += buffer_size(&e->streams[i]);
    }
    return n;
}
