/* tagged.h - the common part of reference allocators with boundary tags, and its interface to their differences.
 *
 * Chunks are adjacent, each with a tag of 16 bytes: its own size and that of the chunk below. A freed chunk is joined
 * with free neighbours at once. tagged.c does that and is the driver. A *fit* (firstfit.c, nextfit.c, bestfit.c,
 * tlsf.c) keeps the free chunks in its own order and chooses one. Each driver is tagged.c linked with one fit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ALLOCATORS_TAGGED_H
#define DRIVERS_ALLOCATORS_TAGGED_H

#include "drivers/sdk/driver.h"

enum { TAG = 16, LEAST_CHUNK = 32, TAG_USED = 1 };

struct chunk {
    size_t below;              /* size of the chunk below; 0 = none */
    size_t size;               /* of this chunk with its tag; bit 0: in use */
    struct chunk *next, *prev; /* used by the fit if the chunk is free */
};

static inline size_t chunk_size(const struct chunk *c)
{
    return c->size & ~(size_t)TAG_USED;
}

static inline struct chunk *chunk_above(const struct chunk *c)
{
    return (struct chunk *)((char *)c + chunk_size(c));
}

/* Is there no chunk above this one? */
bool chunk_is_topmost(const struct chunk *c);

/* -- functions of a fit -- */

/* Number of bytes of the heap for the fit's own tables; a multiple of 16. */
extern const size_t fit_room;
/* Begin without a free chunk; `room` is zeroed. */
void fit_start(void *room);
void fit_insert(struct chunk *c);
void fit_remove(struct chunk *c);
/* A free chunk was split: `rest`, its upper part, with its size set, replaces it in the order. */
void fit_replace(struct chunk *old, struct chunk *rest);
/* Find a free chunk of at least `need` bytes, without removing it. NULL if there is none. */
struct chunk *fit_find(size_t need);
/* The largest size for which fit_find succeeds; 0 = none. */
size_t fit_largest(void);

/* -- functions of tagged.c: the driver's table without name, description and least_heap -- */

bool tagged_init(void *base, size_t size);
void *tagged_malloc(size_t size, uint32_t id);
void tagged_free(void *ref, uint32_t id);
void *tagged_realloc(void *ref, size_t size, uint32_t id);
size_t tagged_usable(void *ref);
void *tagged_lock(void *ref);
void tagged_unlock(void *ref);
void *tagged_highest(void);
bool tagged_walk(struct steve_walk *out);
size_t tagged_header(void *ref);

#define TAGGED_DRIVER                                                                                        \
    .version = STEVE_DRIVER_VERSION, .size = sizeof steve_driver, .confinement = STEVE_IN_HEAP,              \
    .init = tagged_init, .malloc = tagged_malloc, .free = tagged_free, .realloc = tagged_realloc,            \
    .usable = tagged_usable, .lock = tagged_lock, .unlock = tagged_unlock, .highest = tagged_highest,        \
    .walk = tagged_walk, .header = tagged_header

#endif
