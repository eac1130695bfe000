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
#include "memtrace/memtrace.h"
#include <stddef.h>

/* The snapshot being written. */
struct universe {
    struct map number_of; /* address of an object -> its number + 1 */
    struct map string_of; /* key of a name -> string id */
    bool open;
};

/* Begin a snapshot; one that is not complete is given up. */
void universe_begin(struct universe *u, struct mt_writer *w, const struct mt_snapshot *s);
/* Define a name, to which objects and links refer by its key. */
void universe_name(struct universe *u, struct mt_writer *w, uint64_t key, const char *text, size_t size);
/* Add an object. word: payload of RAW_OBJECT. what: enum mt_type | dead << 8 | root << 9. An address that
 * already has an object is ignored. */
void universe_object(struct universe *u, struct mt_writer *w, const uint64_t word[3], uint32_t what);
/* Add links of the object at `from`. pair: n words of RAW_LINKS, pairs of a target and the kind of link.
 * Targets that are not objects are left out. */
void universe_links(struct universe *u, struct mt_writer *w, uint64_t from, const uint64_t *pair, size_t n);
/* Complete the snapshot. */
void universe_end(struct universe *u, struct mt_writer *w);
/* Free the memory. */
void universe_clear(struct universe *u);

#endif
