/* definitions.h - definitions read from a trace: strings, frames, stacks, sites, heaps, facts.
 *
 * They are kept in pages that never move, so that pointers to them stay valid. Every id in a definition is checked:
 * it must refer to an earlier definition.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DEFINITIONS_H
#define MEMTRACE_READ_DEFINITIONS_H

#include "memtrace/base/array.h"
#include "memtrace/format/records.h"
#include "memtrace/memtrace.h"
#include "memtrace/sample.h"

/* A segment. Its accesses are consecutive in defs.accesses. */
struct defined_segment {
    uint32_t first, count, words;
};

/* The bytes of strings, in pieces that never move. */
struct arena {
    struct arena_piece *last;
    size_t used, size;
};

struct defs {
    struct table strings; /* of const char * */
    struct table frames, stacks, sites, heaps, infos, protos, traces, modules;
    struct table pages, mappings, regions;
    struct table segments, accesses; /* of struct defined_segment, struct mt_access */
    struct arena text;
    uint16_t nth;            /* of the Lua function that the next record is about */
    struct mt_sample sample; /* facts */
};

bool defs_init(struct defs *d);
void defs_free(struct defs *d);

/* Called for each record with its line of the dump, if line is not NULL. */
struct record_hook {
    void (*line)(void *ctx, const char *text);
    void *ctx;
    struct line buffer;
};

/* Apply the records of a DEFS chunk. With salvage, definitions lost before it become unknown ones. Returns a
 * description of the error, or NULL. */
const char *defs_apply(struct defs *d, struct cursor *c, bool salvage, struct record_hook *hook);

static inline const char *defs_string(const struct defs *d, uint32_t id)
{
    char **s = table_at(&d->strings, id);
    return s && *s ? *s : "";
}

#endif
