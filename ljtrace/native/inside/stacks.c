/* stacks.c - numbers for stacks, so that an event of a known stack is a short record.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector keeps RING_KEPT_STACKS stacks by number. A hash of the addresses selects a set of numbers; the addresses
 * themselves are compared. Addresses are named when their stack gets its number.
 */
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/table.h"

#include <string.h>
#include <sys/mman.h>

enum { WAYS = 4, SETS = RING_KEPT_STACKS / WAYS };

struct kept {
    uint64_t hash;
    uint32_t depth; /* 0 = free */
};

TABLE(struct kept[WAYS], s_kept, SETS);
static uint64_t *s_ips;   /* s_room addresses for each number - 1; NULL = there is no memory */
static uint32_t s_room;   /* the depth of a stack with its mark that it was cut */
static uint32_t s_victim; /* the way to replace next */

static uint64_t hash_of(const uint64_t *ips, uint32_t n)
{
    uint64_t sum = n;
    for (uint32_t i = 0; i < n; i++)
        sum = (sum ^ ips[i]) * 0x9e3779b97f4a7c15ULL ^ sum >> 29;
    return sum ^ sum >> 32;
}

static uint64_t *ips_of(uint32_t index)
{
    return s_ips + (uint64_t)index * s_room;
}

static uint32_t add(uint32_t set, uint64_t hash, const uint64_t *ips, uint32_t n)
{
    const uint32_t way = s_victim++ % WAYS, index = set * WAYS + way;
    for (uint32_t i = 0; i < n; i++)
        native_name(ips[i]);
    s_kept[set][way] = (struct kept){hash, n};
    memcpy(ips_of(index), ips, n * sizeof *ips);
    NATIVE_PUT(stack, .number = index + 1, .ips = ips, .ips_count = n);
    return index + 1;
}

struct raw_stack native_stack(const uint64_t *ips, uint32_t n)
{
    const uint64_t hash = hash_of(ips, n);
    const uint32_t set = (uint32_t)(hash % SETS);
    if (!s_ips || !n || n > s_room)
        return (struct raw_stack){0};
    for (uint32_t way = 0; way < WAYS; way++) {
        const struct kept *k = &s_kept[set][way];
        const uint32_t index = set * WAYS + way;
        if (k->hash == hash && k->depth == n && memcmp(ips_of(index), ips, n * sizeof *ips) == 0)
            return (struct raw_stack){.number = index + 1};
    }
    return (struct raw_stack){.number = add(set, hash, ips, n)};
}

static uint64_t bytes_of_ips(void)
{
    return (uint64_t)RING_KEPT_STACKS * s_room * sizeof *s_ips;
}

void native_stacks_restart(void)
{
    memset(s_kept, 0, TABLE_BYTES(s_kept));
    native_stacks_end();
    s_room = native_options.depth + 1;
    s_ips = native_memory(bytes_of_ips());
    if (!s_ips)
        native_problem("stacks are not recorded: there is no memory for them (ulimit -v or -d)");
    native_names_restart();
}

uint64_t native_stacks_touched(void)
{
    return memory_touched(s_ips, bytes_of_ips());
}

void native_stacks_end(void)
{
    if (s_ips)
        munmap(s_ips, bytes_of_ips());
    s_ips = NULL;
}
