/* tagged.h - what reference allocators with boundary tags have in common, and what makes them differ.
 *
 * Chunks lie side by side, each with a tag of 16 bytes: its own size and that of the chunk below. A freed
 * chunk is joined with free neighbours at once. tagged.c does that and is the driver; a *fit* (firstfit.c,
 * nextfit.c, bestfit.c, tlsf.c) keeps the free chunks in an order of its own and chooses one. Each
 * driver is tagged.c linked with one fit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ALLOCATORS_TAGGED_H
#define DRIVERS_ALLOCATORS_TAGGED_H

#include "drivers/sdk/driver.h"

enum { TAG = 16, LEAST_CHUNK = 32, TAG_USED = 1 };

struct chunk {
    size_t below;              /* size of the chunk below, 0 = this is the lowest */
    size_t size;               /* of this chunk with its tag; bit 0: in use */
    struct chunk *next, *prev; /* of a free chunk only: the fit's own */
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

/* -- what a fit offers -- */

/* Bytes of the heap that the fit wants for its own tables; a multiple of 16. */
extern const size_t fit_room;
/* Start with no free chunk; `room` is zeroed. */
void fit_start(void *room);
void fit_insert(struct chunk *c);
void fit_remove(struct chunk *c);
/* A chunk in the order is split: `rest`, its upper part, with its size set, takes its place. */
void fit_replace(struct chunk *old, struct chunk *rest);
/* A free chunk of at least `need` bytes, still in the order; NULL: there is none. */
struct chunk *fit_find(size_t need);
/* Bytes of a chunk such that fit_find finds none for more; 0 = none at all. */
size_t fit_largest(void);

/* -- what it gets for that: all of its driver's table but name, description and least_heap -- */

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
