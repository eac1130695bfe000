/* snapshot.h - write a snapshot of a Lua state to the memtrace: replace addresses by numbers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool identifies objects by address, the memtrace numbers them. While a snapshot is being written, an
 * entry is kept for each object and each name.
 */
#ifndef LJTRACE_COLLECTOR_SNAPSHOT_H
#define LJTRACE_COLLECTOR_SNAPSHOT_H

#include "ljtrace/collector/map.h"
#include "ljtrace/protocol/ring.h"
#include "memtrace/memtrace.h"
#include <stddef.h>

/* The snapshot being written. */
struct snapshot {
    struct map number_of; /* address of an object -> its number + 1 */
    struct map string_of; /* key of a name -> string id */
    bool open;
};

/* Begin a snapshot; one that is not complete is given up. */
void snapshot_begin(struct snapshot *u, struct mt_writer *w, const struct mt_snapshot *s);
/* Define a name, to which objects and links refer by its key. */
void snapshot_name(struct snapshot *u, struct mt_writer *w, const struct ring_name *r);
/* Add an object. An address that already has an object is ignored. */
void snapshot_object(struct snapshot *u, struct mt_writer *w, const struct ring_object *r);
/* Add links of one object. Targets that are not objects are left out. */
void snapshot_links(struct snapshot *u, struct mt_writer *w, const struct ring_links *r);
/* Complete the snapshot. */
void snapshot_end(struct snapshot *u, struct mt_writer *w);
/* Free the memory. */
void snapshot_clear(struct snapshot *u);

#endif
