/* snapshot.h - reads SNAPSHOT chunks: arrays of objects and links, all checked.
 *
 * A snapshot may consist of several chunks, with only DEFS chunks between them. It is valid when its last part was
 * read. See docs/memtrace-format.md.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_SNAPSHOT_H
#define MEMTRACE_READ_SNAPSHOT_H

#include "memtrace/base/array.h"
#include "memtrace/read/definitions.h"

struct snapshots {
    struct mt_snapshot *items; /* complete snapshots, with their arrays */
    uint32_t count;
    size_t room;
    bool open;               /* the first part was read, but not the last: */
    struct mt_snapshot part; /* what was read of it */
    struct mt_object *objects;
    struct mt_link *links;
    size_t objects_room, links_room;
    uint32_t from, to; /* ends of the last link */
};

void snapshots_free(struct snapshots *s);
/* Free the arrays of a complete snapshot. */
void snapshot_forget(struct mt_snapshot *s);
/* Discard an incomplete snapshot. */
void snapshots_drop(struct snapshots *s);
/* Read a part. Returns a description of the error, or NULL. `event`: number of events in the file before it. */
const char *snapshots_take(struct snapshots *s, struct cursor *c, const struct defs *defs, uint64_t event,
                           struct record_hook *hook);

#endif
