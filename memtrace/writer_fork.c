/* writer_fork.c - the trace of a forked child: begins with what its parent had defined and allocated.
 *
 * The definitions are written anew, in an order that gives each the id it had; freed blocks are not taken
 * along.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "writer.h"
#include "error.h"

static void inherit_blocks(struct mt_writer *to, const struct mt_writer *from)
{
    for (uint32_t slot = 0; slot < from->map.used; slot++)
        if (from->map.blocks[slot].heap != DEAD_HEAP)
            writer_inherit(to, &from->map.blocks[slot]);
}

struct mt_writer *mt_writer_fork(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                 struct mt_error *err)
{
    if (writer_failed(w)) {
        if (err)
            *err = w->out.err;
        return NULL;
    }
    struct mt_writer *child = mt_writer_new(fd, opts, err);
    if (!child)
        return NULL;
    mt_writer_time(child, w->totals.instructions);
    mt_writer_thread(child, w->thread);
    writer_defs_copy(child, w);
    inherit_blocks(child, w);
    writer_copy_arenas(child, w);
    writer_lua_copy(child, w);
    if (!writer_failed(child))
        return child;
    mt_writer_finish(child, MT_ENDING_UNKNOWN, err);
    return NULL;
}
