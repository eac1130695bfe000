/* snapshot.h - a snapshot of a Lua state on its way into the memtrace: addresses become numbers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool tells objects and links by address; the memtrace numbers objects. Kept while a snapshot is taken:
 * one entry for each object and each name.
 */
#ifndef LJTRACE_COLLECTOR_SNAPSHOT_H
#define LJTRACE_COLLECTOR_SNAPSHOT_H

#include "ljtrace/collector/map.h"
#include "memtrace/memtrace.h"
#include <stddef.h>

struct universe {
    struct map number_of; /* address -> number + 1; 0 = none */
    struct map string_of; /* key of a name -> string id */
    bool open;
};

void universe_begin(struct universe *u, struct mt_writer *w, const struct mt_snapshot *s);
/* A name that objects and links refer to by its key. */
void universe_name(struct universe *u, struct mt_writer *w, uint64_t key, const char *text, size_t size);
/* what: enum mt_type | dead << 8 | root << 9. An address that is already there is left out. */
void universe_object(struct universe *u, struct mt_writer *w, const uint64_t word[3], uint32_t what);
/* Pairs of what `from` refers to and how, as RAW_LINKS has them; what is no object is left out. */
void universe_links(struct universe *u, struct mt_writer *w, uint64_t from, const uint64_t *pair, size_t n);
void universe_end(struct universe *u, struct mt_writer *w);
void universe_clear(struct universe *u);

#endif
