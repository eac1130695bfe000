/* stacks.c - numbers for stacks, so that an event of a known stack is a short record.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector keeps RING_KEPT_STACKS stacks by number. A hash of the addresses selects a set of numbers; the addresses
 * themselves are compared. Addresses are named when their stack gets its number.
 */
#include "ljtrace/native/native.h"

#include <string.h>

enum { WAYS = 4, SETS = RING_KEPT_STACKS / WAYS };

struct kept {
    uint64_t hash;
    uint32_t depth; /* 0 = free */
};

static struct kept s_kept[SETS][WAYS];
static uint64_t (*s_ips)[NATIVE_MOST_FRAMES + 1]; /* by number - 1; memory is used only where it is written */
static uint32_t s_victim;                         /* the way to replace next */

static uint64_t hash_of(const uint64_t *ips, uint32_t n)
{
    uint64_t sum = n;
    for (uint32_t i = 0; i < n; i++)
        sum = (sum ^ ips[i]) * 0x9e3779b97f4a7c15ULL ^ sum >> 29;
    return sum ^ sum >> 32;
}

static uint32_t add(uint32_t set, uint64_t hash, const uint64_t *ips, uint32_t n)
{
    const uint32_t way = s_victim++ % WAYS, index = set * WAYS + way;
    for (uint32_t i = 0; i < n; i++)
        native_name(ips[i]);
    s_kept[set][way] = (struct kept){hash, n};
    memcpy(s_ips[index], ips, n * sizeof *ips);
    NATIVE_PUT(stack, .number = index + 1, .ips = ips, .ips_count = n);
    return index + 1;
}

struct raw_stack native_stack(const uint64_t *ips, uint32_t n)
{
    const uint64_t hash = hash_of(ips, n);
    const uint32_t set = (uint32_t)(hash % SETS);
    if (!s_ips)
        s_ips = native_memory(RING_KEPT_STACKS * sizeof *s_ips);
    if (!s_ips || !n)
        return (struct raw_stack){0};
    for (uint32_t way = 0; way < WAYS; way++) {
        const struct kept *k = &s_kept[set][way];
        const uint32_t index = set * WAYS + way;
        if (k->hash == hash && k->depth == n && memcmp(s_ips[index], ips, n * sizeof *ips) == 0)
            return (struct raw_stack){.number = index + 1};
    }
    return (struct raw_stack){.number = add(set, hash, ips, n)};
}

void native_stacks_restart(void)
{
    memset(s_kept, 0, sizeof s_kept);
    native_names_restart();
}

void native_stacks_forget(void)
{
    memset(s_kept, 0, sizeof s_kept);
    native_names_forget();
}
