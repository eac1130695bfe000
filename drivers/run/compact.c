/* compact.c - let the allocator compact, and see what it did to the blocks; see engine.h.
 *
 * An allocator that moves blocks can lose them there and nowhere else. With --check every live block is
 * compared after each compaction, not only when it is freed, so that the compaction that did it is known.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/clock.h"
#include "drivers/run/engine.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_whole(struct engine *e, const struct block *b)
{
    if (!b->ref)
        return true;
    if (b->fixed && (e->driver->flags & STEVE_MOVES) && e->driver->where(b->ref) != b->fixed) {
        snprintf(e->shared->text, sizeof e->shared->text,
                 "locked block of %" PRIu64 " bytes at %p was moved by compaction", b->size, b->fixed);
        return false;
    }
    return e->watcher->kept(e->watcher->ctx, b, engine_address(e, b), b->size);
}

static bool all_whole(struct engine *e)
{
    for (uint32_t i = 0; i < e->shared->job.facts.slots; i++)
        if (!is_whole(e, &e->blocks[i]))
            return false;
    for (uint64_t i = 0; i < e->kept_count; i++)
        if (!is_whole(e, &e->kept[i]))
            return false;
    return true;
}

bool engine_make_room(struct engine *e, size_t wanted)
{
    if (!e->driver->compact)
        return false;
    uint64_t from = clock_ticks();
    bool worth = e->driver->compact(wanted);
    e->oom_time = clock_between(from, clock_ticks());
    e->shared->heartbeat++;
    e->spoiled = e->watcher && e->shared->job.check && !all_whole(e);
    return worth && !e->spoiled;
}
