/* stacks.h - convert raw code addresses to the memtrace's frames and stacks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A code address may change its meaning, when an object is unloaded and another is loaded at the same place.
 * It then gets a new frame, which later stacks use. Equal stacks are found by a hash of all their addresses,
 * so that a typical event costs one look-up, however deep its stack is.
 */
#ifndef COLLECTOR_STACKS_H
#define COLLECTOR_STACKS_H

#include "ljtrace/collector/map.h"
#include "ljtrace/protocol/ring.h"
#include "memtrace/memtrace.h"

/* The number of recent stacks that are found by their hash. */
enum { STACK_CACHE = 1 << 14 };

/* All frames and stacks so far. */
struct stacks {
    struct mt_writer *writer;
    struct map frame_of;    /* code address -> frame id */
    struct mt_frame *frame; /* by frame id */
    uint32_t frames, capacity;
    struct stack_entry {
        uint64_t hash;
        uint32_t stack;
    } cache[STACK_CACHE];
    uint32_t meanings; /* how often the meaning of a code address has changed */
    struct stack_kept {
        uint64_t *ip;
        uint32_t count, capacity;
        uint32_t stack, meanings; /* the stack's id when `meanings` had this value */
    } kept[RING_KEPT_STACKS + 1];
};

void stacks_init(struct stacks *s, struct mt_writer *w);
/* From now on the code address f->ip means this frame. */
void stacks_define(struct stacks *s, const struct mt_frame *f);
/* The same for a key that occurs in stacks in place of a code address. */
void stacks_define_as(struct stacks *s, uint64_t key, const struct mt_frame *f);
/* The frame of a code address. An address without a frame gets one without a name. */
uint32_t stacks_frame(struct stacks *s, uint64_t ip);
/* The id of the stack of n addresses, innermost first. */
uint32_t stacks_intern(struct stacks *s, const uint64_t *ips, uint32_t n);
/* Store n addresses under a number from 1 to RING_KEPT_STACKS, replacing those stored before. */
void stacks_keep(struct stacks *s, uint32_t number, const uint64_t *ips, uint32_t n);
/* The id of the stack whose addresses are stored under a number; 0, the empty stack, if there are none. */
uint32_t stacks_kept(struct stacks *s, uint32_t number);
void stacks_free(struct stacks *s);

#endif
