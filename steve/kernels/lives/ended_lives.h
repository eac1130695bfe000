/* ended_lives.h - sums of the lives of blocks that this process made and freed, for the rule `churn`.
 *
 * They are a few of the sums of groups.h: a report keeps them for each stack. Memory: O(keys that occur).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_ENDED_LIVES_H
#define STEVE_KERNELS_LIVES_ENDED_LIVES_H

#include "steve/kernels/lives/groups.h"

struct ended_lives {
    struct ended_lives_row *rows;
    struct keyed_rows of_keys;
    enum groups_key key;
};

void ended_lives_init(struct ended_lives *e, enum groups_key key);
void ended_lives_free(struct ended_lives *e);
/* Add the lives among n that ended and were not inherited, without containers. keep: a byte for each life, NULL = all. False when out of
 * memory. */
bool ended_lives_add(struct ended_lives *e, const struct life *lives, const uint8_t *keep, size_t n);
/* As groups_merge() and groups_settle(). */
bool ended_lives_merge(struct ended_lives *e, const uint32_t *keys, const struct ended_lives_row *rows,
                       size_t n, uint64_t peak);
void ended_lives_settle(struct ended_lives *e, uint64_t peak);

#endif
