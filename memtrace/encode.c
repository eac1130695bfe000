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

/* Accesses of a kind in a batch are counted in this many bits of one register. */
enum { KIND_BITS = 21 };

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
    e->sites[e->site_count++] =
        (struct site_state){.size = size, .kind = kind, .shift = kind ? KIND_BITS * (kind - MT_LOAD) : 0};
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

/* Make room for accesses, and tokens of rare records, many at a time because batches are small. */
static bool reserve(struct encoder *e)
{
    bool ok = true;
    for (unsigned i = STREAM_TOKENS; i <= STREAM_OFFSETS; i++)
        ok &= buffer_reserve(&e->streams[i], (2 * ENCODE_BATCH + 1) * (UVARINT_MAX_BYTES + 1));
    e->room = ok ? 2 * ENCODE_BATCH : 0;
    return ok;
}

/* Unpack what the loop counted; returns the sum. */
static uint32_t count_kinds(struct mt_totals *totals, uint64_t packed)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < 3; i++) {
        uint32_t n = packed >> KIND_BITS * i & ((1 << KIND_BITS) - 1);
        totals->events[MT_LOAD + i] += n;
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

/* -- accesses outside live blocks -- */

/* Forget the foreign pages if blocks may have come to lie there. */
static void check_foreign(struct encoder *e, const struct surroundings *in)
{
    uint64_t made = in->live->pages_made + in->dead->map.pages_made;
    if (made == e->pages_made)
        return;
    memset(e->foreign, 0, sizeof e->foreign);
    e->pages_made = made;
}

static uint64_t *foreign_entry(struct encoder *e, uint64_t addr)
{
    return &e->foreign[addr >> PAGE_BITS & (FOREIGN_PAGES - 1)];
}

static bool is_foreign(struct encoder *e, uint64_t addr)
{
    return *foreign_entry(e, addr) == (addr >> PAGE_BITS) + 1;
}

/* Remember a page without any block. Large blocks have no entry for each page and are never asked for. */
static void note_foreign(struct encoder *e, const struct surroundings *in, uint64_t addr)
{
    if (!is_foreign(e, addr) && blockmap_empty_page(in->live, addr) &&
        blockmap_empty_page(&in->dead->map, addr))
        *foreign_entry(e, addr) = (addr >> PAGE_BITS) + 1;
}

/* An access outside live blocks: it is to freed memory, or foreign. */
static void code_outside(struct encoder *e, const struct surroundings *in, uint32_t site, uint64_t addr)
{
    const struct block *b = is_foreign(e, addr) ? NULL : graves_find(in->dead, addr);
    const struct site_state *s = &e->sites[site];
    if (!b) {
        in->totals->foreign++;
        note_foreign(e, in, addr);
        return;
    }
    put_freed(encoder_rare(e), &(struct rec_freed){in->totals->instructions, site, s->kind, addr, s->size,
                                                   b->handle, addr - b->base, b->heap});
    in->totals->freed++;
    e->count++;
}

static void code_live(struct encoder *e, const struct surroundings *in, uint32_t site, uint32_t slot,
                      uint64_t addr)
{
    struct site_state *prev = &e->sites[e->prev_site];
    unsigned misses = site == prev->next[0] ? 0 : MISS_SITE;
    if (misses)
        code_site(e, prev, site);
    code_miss(e, site, slot, addr - in->live->blocks[slot].base, misses);
    in->totals->events[e->sites[site].kind]++;
    e->count++;
}

/* The general case of an access: find out what it is to, code it if it is to a block, and count it. */
static __attribute__((noinline)) void code_any(struct encoder *e, const struct surroundings *in,
                                               uint32_t site, uint64_t addr)
{
    if (site - 1 >= e->site_count - 1) {
        in->totals->dropped++;
        return;
    }
    uint32_t slot = is_foreign(e, addr) ? NO_SLOT : blockmap_find(in->live, addr);
    if (slot != NO_SLOT)
        code_live(e, in, site, slot, addr);
    else
        code_outside(e, in, site, addr);
}

/* -- batches -- */

/* The common case, everything as expected: learn it. False = not the common case. */
static inline bool code_hit(struct site_state *s, const struct block *blocks, uint32_t used, uint64_t addr,
                            uint32_t *slot)
{
    uint32_t guess = guess_slot(s, *slot);
    uint64_t offset = guess_offset(s);
    if (guess >= used)
        return false;
    const struct block *b = &blocks[guess];
    if (addr - b->base != offset || offset >= b->size)
        return false;
    learn_slot_hit(s, *slot, guess);
    learn_offset_hit(s, offset);
    *slot = guess;
    return true;
}

bool encoder_accesses(struct encoder *e, const struct surroundings *in, const uint32_t *sites,
                      const uint64_t *addrs, size_t n)
{
    if (e->room < n && !reserve(e))
        return false;
    e->room -= (uint32_t)n;
    check_foreign(e, in);
    const struct block *blocks = in->live->blocks;
    const uint32_t used = in->live->used;
    struct site_state *states = e->sites, *prev = &states[e->prev_site];
    uint32_t slot = e->prev_slot;
    uint64_t packed = 0;
    size_t coded = 0; /* of the batch */
    for (size_t i = 0; i < n; i++) {
        uint32_t site = sites[i];
        if (site == prev->next[0] && site != NO_SITE &&
            code_hit(&states[site], blocks, used, addrs[i], &slot)) {
            prev = &states[site];
            packed += (uint64_t)1 << prev->shift;
            continue;
        }
        e->prev_site = (uint32_t)(prev - states);
        e->prev_slot = slot;
        e->run += i - coded;
        coded = i + 1;
        code_any(e, in, site, addrs[i]);
        prev = &states[e->prev_site];
        slot = e->prev_slot;
    }
    e->prev_site = (uint32_t)(prev - states);
    e->prev_slot = slot;
    e->run += n - coded;
    e->count += count_kinds(in->totals, packed);
    return true;
}

struct buffer *encoder_rare(struct encoder *e)
{
    struct buffer *tokens = &e->streams[STREAM_TOKENS];
    if (e->room || reserve(e)) {
        tokens->p = put_token(tokens->p, e->run, 0);
        e->room--;
    }
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
