/* stacks.h - from raw code addresses to the memtrace's frames and stacks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A code address may come to mean something else (an object unloaded, another loaded); it then gets a new
 * frame, and stacks made from then on use that. Equal stacks are found through a hash of all their
 * addresses, so that the usual event costs one look-up whatever its depth.
 */
#ifndef COLLECTOR_STACKS_H
#define COLLECTOR_STACKS_H

#include "ljtrace/collector/map.h"
#include "ljtrace/protocol/ring.h"
#include "memtrace/memtrace.h"

enum { STACK_CACHE = 1 << 14 };

struct stacks {
    struct mt_writer *writer;
    struct map frame_of;    /* code address -> frame id */
    struct mt_frame *frame; /* by frame id */
    uint32_t frames, capacity;
    struct stack_memo {
        uint64_t hash;
        uint32_t stack;
    } memo[STACK_CACHE];
    uint32_t meanings; /* how often a code address has come to mean something else */
    struct stack_kept {
        uint64_t *ip;
        uint32_t count, capacity;
        uint32_t stack, meanings; /* what it was, at that time */
    } kept[RING_KEPT_STACKS + 1];
};

void stacks_init(struct stacks *s, struct mt_writer *w);
/* The code address ip is this frame from now on. */
void stacks_define(struct stacks *s, const struct mt_frame *f);
/* The same of a key that stands in stacks in the place of a code address. */
void stacks_define_as(struct stacks *s, uint64_t key, const struct mt_frame *f);
/* The frame of a code address, defined without a name if it has none yet. */
uint32_t stacks_frame(struct stacks *s, uint64_t ip);
/* The stack of n addresses, innermost first. */
uint32_t stacks_intern(struct stacks *s, const uint64_t *ips, uint32_t n);
/* Keep n addresses under a number, 1 to RING_KEPT_STACKS, in the place of those kept there before. */
void stacks_keep(struct stacks *s, uint32_t number, const uint64_t *ips, uint32_t n);
/* The stack of the addresses kept under a number; 0, the empty stack, if there are none. */
uint32_t stacks_kept(struct stacks *s, uint32_t number);
void stacks_free(struct stacks *s);

#endif
