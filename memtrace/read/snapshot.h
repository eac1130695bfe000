/* snapshot.h - SNAPSHOT chunks on the reader's side: objects and links, checked, as arrays.
 *
 * A snapshot may stand in several chunks, one behind the other (with DEFS chunks between); it counts when its
 * last part was read. See docs/memtrace-format.md.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_SNAPSHOT_H
#define MEMTRACE_READ_SNAPSHOT_H

#include "memtrace/base/array.h"
#include "memtrace/read/definitions.h"

struct snapshots {
    struct mt_snapshot *items; /* whole ones; the arrays are theirs */
    uint32_t count;
    size_t room;
    bool open;               /* a part was read, the last one not yet: */
    struct mt_snapshot part; /* this far */
    struct mt_object *objects;
    struct mt_link *links;
    size_t objects_room, links_room;
    uint32_t from, to; /* of the last link */
};

void snapshots_free(struct snapshots *s);
/* Give the arrays of a whole one back. */
void snapshot_forget(struct mt_snapshot *s);
/* Forget the snapshot that has begun. */
void snapshots_drop(struct snapshots *s);
/* Take a part; what is wrong with it, or NULL. event: events in the file before it. */
const char *snapshots_take(struct snapshots *s, struct cursor *c, const struct defs *defs, uint64_t event,
                           struct record_hook *hook);

#endif
