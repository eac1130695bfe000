/* fork.c - traces that begin with the definitions and blocks of another trace: of a forked child, or continuing a
 * trace in another file.
 *
 * The definitions are written again, in an order in which each gets the same id. Freed blocks are not copied.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/write/writer_impl.h"

enum beginning { FORKED, CONTINUED };

/* The sample leaves out the same blocks. */
static void take_over_unsampled(struct mt_writer *to, const struct mt_writer *from)
{
    const struct blockmap *map = &from->unsampled.map;
    for (uint32_t slot = 0; to->unsampled.sample.every && slot < map->used; slot++) {
        if (map->blocks[slot].heap == DEAD_HEAP)
            continue;
        if (!unsampled_add(&to->unsampled, &map->blocks[slot]))
            mt_fail_memory(&to->out.err);
        to->unsampled.all.news++;
        to->unsampled.all.allocated += map->blocks[slot].size;
    }
    to->unsampled.drawn = from->unsampled.drawn;
}

/* Write the live blocks of `from`. If the new trace continues it, blocks that were inherited from a parent process
 * stay inherited. */
static void take_over_blocks(struct mt_writer *to, const struct mt_writer *from, enum beginning how)
{
    const struct blockmap *map = &from->map;
    for (uint32_t slot = 0; slot < map->used; slot++)
        if (map->blocks[slot].heap != DEAD_HEAP &&
            (how == FORKED || map->blocks[slot].handle < from->inherited))
            writer_take_over(to, &map->blocks[slot], true);
    for (uint32_t slot = 0; slot < map->used; slot++)
        if (map->blocks[slot].heap != DEAD_HEAP && how == CONTINUED &&
            map->blocks[slot].handle >= from->inherited)
            writer_take_over(to, &map->blocks[slot], false);
}

static struct mt_writer *begin(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                               enum beginning how, struct mt_error *err)
{
    if (writer_failed(w)) {
        if (err)
            *err = w->out.err;
        return NULL;
    }
    struct mt_writer *other = mt_writer_new(fd, opts, err);
    if (!other)
        return NULL;
    if (how == CONTINUED)
        other->out.start = w->out.start;
    mt_writer_time(other, w->totals.instructions);
    mt_writer_thread(other, w->thread);
    writer_defs_copy(other, w);
    take_over_blocks(other, w, how);
    take_over_unsampled(other, w);
    other->has_gaps = w->has_gaps;
    other->gap_handles = w->has_gaps ? other->handles : 0;
    writer_copy_containers(other, w);
    writer_lua_copy(other, w);
    if (!writer_failed(other))
        return other;
    mt_writer_finish(other, MT_ENDING_UNKNOWN, err);
    return NULL;
}

struct mt_writer *mt_writer_fork(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                 struct mt_error *err)
{
    return begin(w, fd, opts, FORKED, err);
}

struct mt_writer *mt_writer_continue(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                     struct mt_error *err)
{
    return begin(w, fd, opts, CONTINUED, err);
}

bool mt_writer_is_whole(const struct mt_writer *w)
{
    return !w->snapshot.open && !w->reach.reached;
}
