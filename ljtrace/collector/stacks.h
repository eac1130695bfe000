/* stacks.h - convert raw code addresses to the memtrace's frames and stacks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A code address has one frame for the function whose code it is, and one for each function that was inlined there.
 * A frame is written to the memtrace when it is first used. A code address may change its meaning, when an object is
 * unloaded and another is loaded at the same place. It then gets new frames, which later stacks use. A stack that the
 * recorder has numbered is a node of a tree: the stack of its callers and one more frame. Others are found by a hash of all
 * their addresses.
 *
 * Frames of the recorder's own libraries inside the program are left out of stacks: the program does not have them. The
 * innermost frame stays, since it is the allocation function that the program has called.
 */
#ifndef COLLECTOR_STACKS_H
#define COLLECTOR_STACKS_H

#include "ljtrace/collector/map.h"
#include "ljtrace/protocol/ring.h"
#include "memtrace/memtrace.h"

/* The number of recent stacks that are found by their hash. */
enum { STACK_CACHE = 1 << 14 };

/* A frame of a code address. */
struct stack_frame {
    struct mt_frame frame;
    uint32_t id;     /* in the memtrace; 0 = it was not used so far */
    uint32_t around; /* number of frames of the same address that it was inlined in; they follow */
    bool is_recorders;
};

/* All frames and stacks so far. */
struct stacks {
    struct mt_writer *writer;
    struct map frame_of; /* code address -> index of its innermost frame */
    struct stack_frame *frames;
    uint32_t count, capacity;
    struct stack_entry {
        uint64_t hash;
        uint32_t stack;
    } cache[STACK_CACHE];
    /* The last stack that was made, outermost first: addresses, and the ids of the stacks up to each. */
    struct stack_step {
        uint64_t ip;
        uint32_t stack;
    } * last;
    uint32_t last_count, last_capacity;
    uint32_t meanings; /* how often the meaning of a code address has changed */
    struct stack_node {
        uint64_t ip;      /* 0 = there is no such node */
        uint32_t parent;  /* a smaller number; 0 = none */
        uint32_t whole;   /* the stack's id, when `meanings` had this value */
        uint32_t outside; /* the same without frames that are left out of stacks that go on from here */
        uint32_t meanings;
    } * nodes; /* by number */
    uint32_t node_capacity;
};

void stacks_init(struct stacks *s, struct mt_writer *w);
/* From now on a code address, or a key that occurs in stacks in place of one, means these n frames, innermost first. */
void stacks_define(struct stacks *s, uint64_t key, const struct mt_frame *f, uint32_t n);
/* The code of this address, which is defined, is the recorder's own. */
void stacks_leave_out(struct stacks *s, uint64_t key);
/* The id of the innermost frame of a code address. An address without a frame gets one without a name. */
uint32_t stacks_frame(struct stacks *s, uint64_t ip);
/* The id of the stack of n addresses, innermost first. */
uint32_t stacks_intern(struct stacks *s, const uint64_t *ips, uint32_t n);
/* A stack has this number from now on: that of its parent, or the empty one if that is 0, and one address more. The parent is a
 * smaller number. */
void stacks_node(struct stacks *s, uint32_t number, uint32_t parent, uint64_t ip);
/* Find the ids of a node anew, as the meaning of a code address has changed. */
void stacks_resolve(struct stacks *s, uint32_t number);
/* The id of the stack with a number up to RING_NODES; 0, the empty stack, if there is none. */
static inline uint32_t stacks_numbered(struct stacks *s, uint32_t number)
{
    if (number >= s->node_capacity)
        return 0;
    if (s->nodes[number].meanings != s->meanings)
        stacks_resolve(s, number);
    return s->nodes[number].whole;
}
void stacks_free(struct stacks *s);

#endif
