/* findings.h - which lives of blocks deserve a look: the rules of `steve findings` and the report, and what they find
 * by the stack or thread of the New, or by the type.
 *
 * A life is looked at once for all rules. Shares of a life are compared as doubles, as Python's numbers are.
 * Memory: O(what each rule finds), and 4 bytes for each key up to the last one that a rule finds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_FINDINGS_H
#define STEVE_KERNELS_LIVES_FINDINGS_H

#include "steve/kernels/base/keyed_rows.h"
#include "steve/kernels/lives/lives.h"

/* In the order of the table in steve/analysis/rules.py, which says in words what each finds. */
enum findings_rule {
    FINDINGS_NEVER_TOUCHED,
    FINDINGS_NEVER_READ,
    FINDINGS_NEVER_WRITTEN,
    FINDINGS_WRITTEN_ONCE,
    FINDINGS_SHORT_LIVED,
    FINDINGS_LOW_UTILISATION,
    FINDINGS_LATE_FIRST_USE,
    FINDINGS_IDLE_TAIL,
    FINDINGS_RESIZE_CHAIN,
    FINDINGS_NEVER_FREED,
    FINDINGS_RULES
};

struct findings_limits {
    double early, late, idle, utilisation;          /* shares: 0 to 1 */
    uint64_t short_life, min_life, chain, min_size; /* operations, operations, Resizes, bytes */
};

/* What a rule finds: it has rows for the keys where it finds something. */
struct findings_of_rule {
    struct finding *rows;
    struct keyed_rows of_keys;
    struct finding_variances *variances; /* of the first rows; of a trace that is no sample none */
    size_t variances_room;
};

struct findings {
    struct findings_limits limits;
    enum groups_key key;
    struct findings_of_rule of[FINDINGS_RULES];
    uint64_t bytes; /* of all blocks examined */
};

void findings_init(struct findings *f, const struct findings_limits *limits, enum groups_key key);
void findings_free(struct findings *f);
/* A bit for each rule that finds a life. */
unsigned findings_of(const struct findings_limits *limits, const struct life *life);
/* keep: a byte for each life; NULL = all. False when out of memory. */
bool findings_add(struct findings *f, const struct life *lives, const uint8_t *keep, size_t n);
/* Add n rows of a rule of another shard, each with its key. False when out of memory. */
bool findings_merge(struct findings *f, enum findings_rule rule, const uint32_t *keys,
                    const struct finding *rows, size_t n);

#endif
