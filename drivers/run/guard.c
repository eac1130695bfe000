/* guard.c - checks the blocks of an allocator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/guard.h"
#include "drivers/heap/region.h"

#include <inttypes.h>
#include <stdio.h>

static unsigned char pattern(const struct block *b, uint64_t i)
{
    return (unsigned char)((b->id + 1) * 2654435761u >> 24 ^ (i & 0xff));
}

static bool escaped(struct shared *b, const struct block *block, const char *address)
{
    snprintf(b->text, sizeof b->text,
             "block of %" PRIu64 " bytes at %p is not inside the heap of %zu bytes at %p: the allocator "
             "is not confined",
             block->size, (const void *)address, region_size(), (void *)region_base());
    return false;
}

void guard_fill(const struct block *block, void *address, uint64_t from, uint64_t to)
{
    volatile unsigned char *p = address;
    for (uint64_t i = from; i < to; i++)
        p[i] = pattern(block, i);
}

bool guard_made(struct shared *b, const struct steve_driver *d, const struct block *block, void *address)
{
    if (!address)
        return true;
    if (d->confinement != STEVE_NOT_CONFINED && !region_holds(address, block->size))
        return escaped(b, block, address);
    if (b->job.check)
        guard_fill(block, address, 0, block->size);
    else
        touch_block(address, block->size, b->job.touch);
    return true;
}

bool guard_kept(struct shared *b, const struct block *block, void *address, uint64_t bytes)
{
    const unsigned char *p = address;
    if (!b->job.check || !p)
        return true;
    for (uint64_t i = 0; i < bytes; i++) {
        if (p[i] == pattern(block, i))
            continue;
        snprintf(b->text, sizeof b->text,
                 "block of %" PRIu64 " bytes at %p was overwritten at byte %" PRIu64 " while it was live",
                 block->size, address, i);
        return false;
    }
    return true;
}
