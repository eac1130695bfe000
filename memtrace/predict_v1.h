/* predict_v1.h - the predictor of format version 1, for reading old files.
 *
 * An access is (site, slot, offset). Most programs repeat themselves, so each part is guessed, and only
 * wrong guesses are stored:
 *   site    the site that followed the previous site last time; second guess: the time before
 *   slot    the block of the previous access, or the site's own last block plus its block stride; a
 *           counter per site chooses between the two
 *   offset  the site's last offset plus its stride
 * Strides change only when the same difference comes twice, so that a single jump costs one miss, not
 * two. State is per chunk: a site is cold until its first access in the chunk.
 *
 * Never to be changed: this is what such files mean.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_PREDICT_V1_H
#define MEMTRACE_PREDICT_V1_H

#include <stdbool.h>
#include <stdint.h>

#define NO_SITE UINT32_MAX

/* The misses of a token: they are those of one access, and a run is of accesses. */
enum { MISS_SITE = 1, MISS_SLOT = 2, MISS_OFFSET = 4 };

/* One cache line for each site. */
struct site_state {
    uint64_t offset;        /* of the last access */
    uint64_t offset_stride; /* differences are modulo 2^64, and 2^32 for slots */
    uint64_t offset_delta;  /* last difference, to confirm a stride */
    uint32_t slot;
    uint32_t slot_stride;
    uint32_t slot_delta;
    uint32_t next[2]; /* sites that followed, latest first */
    uint32_t epoch;   /* chunk in which this state is valid */
    uint32_t size;    /* constant: bytes accessed */
    uint8_t kind;     /* constant: enum mt_kind; 0 = site not known */
    uint8_t follow;   /* 0..3: >= 2 guesses the block of the previous access */
} __attribute__((aligned(64)));

/* Make a site cold. prev_slot: the block of the access before. */
static inline void site_reset(struct site_state *s, uint32_t epoch, uint32_t prev_slot)
{
    s->offset = s->offset_stride = s->offset_delta = 0;
    s->slot = prev_slot;
    s->slot_stride = s->slot_delta = 0;
    s->next[0] = s->next[1] = NO_SITE;
    s->epoch = epoch;
    s->follow = 2;
}

static inline uint32_t own_slot(const struct site_state *s)
{
    return s->slot + s->slot_stride;
}

static inline uint32_t guess_slot(const struct site_state *s, uint32_t prev_slot)
{
    return s->follow >= 2 ? prev_slot : own_slot(s);
}

/* The guess that was not made. */
static inline uint32_t other_slot(const struct site_state *s, uint32_t prev_slot)
{
    return s->follow >= 2 ? own_slot(s) : prev_slot;
}

static inline uint64_t guess_offset(const struct site_state *s)
{
    return s->offset + s->offset_stride;
}

/* Learn from an access: `site` followed `prev`. */
static inline void learn_site(struct site_state *prev, uint32_t site)
{
    prev->next[1] = prev->next[0];
    prev->next[0] = site;
}

static inline void learn_slot(struct site_state *s, uint32_t prev_slot, uint32_t slot)
{
    uint32_t own = own_slot(s), delta = slot - s->slot;
    if (own != prev_slot) {
        if (slot == prev_slot)
            s->follow += s->follow < 3;
        else if (slot == own)
            s->follow -= s->follow > 0;
    }
    s->slot_stride = delta == s->slot_delta ? delta : s->slot_stride;
    s->slot_delta = delta;
    s->slot = slot;
}

/* The same when the guess was right: what learn_slot comes to then. */
static inline void learn_slot_hit(struct site_state *s, uint32_t prev_slot, uint32_t slot)
{
    if (s->follow >= 2) {
        learn_slot(s, prev_slot, slot);
        return;
    }
    s->follow -= s->follow > 0 && slot != prev_slot;
    s->slot_delta = s->slot_stride;
    s->slot = slot;
}

static inline void learn_offset(struct site_state *s, uint64_t offset)
{
    uint64_t delta = offset - s->offset;
    s->offset_stride = delta == s->offset_delta ? delta : s->offset_stride;
    s->offset_delta = delta;
    s->offset = offset;
}

static inline void learn_offset_hit(struct site_state *s, uint64_t offset)
{
    s->offset_delta = s->offset_stride;
    s->offset = offset;
}

#endif
