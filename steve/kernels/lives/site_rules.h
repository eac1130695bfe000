/* site_rules.h - sums that the rules about sites need: temporaries, unused capacity, and how the live bytes grow.
 *
 * The rules of findings.h judge a block by its own life. These judge what a site does in the whole run: see
 * steve/analysis/site_rules.py. The run is divided into at most SITE_RULES_PARTS equal parts. Their width in operations
 * doubles whenever there would be more, so at the end there are more than half as many. What is alive at the beginning
 * of a part does not depend on the width at the time when a block was added. LuaJIT's table of strings is never counted as
 * alive: which site makes it grow says nothing of that site.
 * Memory: O(keys that occur). Not for samples of the blocks: weights are not used.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_SITE_RULES_H
#define STEVE_KERNELS_LIVES_SITE_RULES_H

#include "steve/kernels/lives/groups.h"
#include "steve/kernels/base/keyed_rows.h"

struct site_rules_limits {
    double capacity; /* a share: 0 to 1 */
    uint64_t short_life, min_size;
};

/* What is known of a key, whole. */
struct site_rules_row {
    struct site_rules_totals totals;
    struct site_rules_changes changes;
};

/* The same as it is kept: many keys have few blocks, none of which was alive at the beginning of a part. */
struct site_rules_kept {
    struct site_rules_totals totals;
    size_t changes; /* their number, from 1; 0: there are none */
};

/* What happened in a part of the run. Of the heap of a garbage collector: collected, the objects that were freed; requested, the
 * bytes of the blocks that were made; kept, by how many bytes what is alive has changed. */
struct site_rules_part {
    uint64_t collected, news, requested;
    int64_t kept;
};

struct site_rules {
    struct site_rules_limits limits;
    enum groups_key key;
    struct site_rules_kept *kept;
    struct keyed_rows of_keys;
    struct site_rules_changes *changes;
    size_t n_changes, changes_room;
    uint64_t width;    /* of a part, in operations */
    uint64_t last_new; /* number of the last New's operation */
    struct site_rules_part parts[SITE_RULES_PARTS];
};

void site_rules_init(struct site_rules *s, const struct site_rules_limits *limits, enum groups_key key);
void site_rules_free(struct site_rules *s);
/* keep: a byte for each life; NULL = all. False when out of memory. */
bool site_rules_add(struct site_rules *s, const struct life *lives, const uint8_t *keep, size_t n);
/* Make the parts wider until they have at least a width, or until they cover so many operations. */
void site_rules_widen(struct site_rules *s, uint64_t width);
void site_rules_cover(struct site_rules *s, uint64_t operations);
/* Write whole rows: those of n indices. */
void site_rules_rows(const struct site_rules *s, const uint32_t *indices, size_t n,
                     struct site_rules_row *rows);
/* Add n rows of another shard, each with its key, and its parts[]; both have the same width. False when out of
 * memory. */
bool site_rules_merge(struct site_rules *s, const uint32_t *keys, const struct site_rules_row *rows, size_t n,
                      const struct site_rules_part *parts);

#endif
