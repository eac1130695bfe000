/* feed_impl.h - what the files of the feed share: its state, and the record at hand.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * feed.c takes the stream apart and knows heaps and accesses, feed_frame.c knows frames of C, feed_lua.c what
 * is LuaJIT's: frames, types, states, prototypes, traces, snapshots and samples.
 */
#ifndef LJTRACE_COLLECTOR_FEED_IMPL_H
#define LJTRACE_COLLECTOR_FEED_IMPL_H

#include "ljtrace/collector/debuginfo.h"
#include "ljtrace/collector/feed.h"
#include "ljtrace/collector/map.h"
#include "ljtrace/collector/snapshot.h"
#include "ljtrace/collector/stacks.h"
#include "ljtrace/protocol/ring.h"

/* Where a Lua state keeps the state of its machine. */
struct machine {
    uint64_t addr, heap; /* heap: as the tool calls it */
    uint64_t states;     /* as in RAW_MACHINE */
    uint32_t count;
    int32_t state;                  /* told last; MACHINE_UNTOLD = none was */
    uint32_t heap_id, heap_version; /* the heap's id, as long as heap_of has that version */
};
enum { MACHINE_UNTOLD = INT32_MIN };

/* Frames of calls that traces made lately, by their code addresses. */
enum { FEED_CALLS = 256 };
struct feed_call {
    uint64_t ip;
    uint32_t frame, meanings; /* as of struct stacks, when that was so */
};

/* A heap that headers refer to, and its id, as long as heap_of has that version. */
struct feed_slot {
    uint64_t heap;
    uint32_t id, version;
};

struct feed {
    struct mt_writer *writer;
    struct mt_between between; /* changes of states: feed_change */
    struct stacks stacks;
    struct mt_access access[MT_SEGMENT_MOST]; /* of the segment defined last */
    uint32_t accesses;
    struct map site_of;    /* hash of a site -> its id */
    struct map heap_of;    /* state pointer -> heap id */
    uint32_t heap_version; /* changes with it; from 1 */
    struct feed_slot slot[RING_HEAP_SLOTS];
    struct universe universe;
    struct feed_call call[FEED_CALLS];
    struct debuginfo *debuginfo;
    uint64_t *payload; /* of the record at hand, aligned */
    uint64_t counted;  /* instructions of segments so far */
    uint32_t thread;
    uint32_t *lines; /* of the Lua prototype that comes next */
    uint32_t line_count, line_capacity;
    struct machine *machines; /* the one that changed its state last comes first */
    uint32_t machine_count;
    enum mt_ending ending;
    bool ended;
    bool off;                   /* accesses are not wanted now, of the running thread */
    bool switched_off;          /* of all threads */
    enum feed_wish wish;        /* not yet fulfilled */
    uint8_t unfocused[1 << 16]; /* by thread: it is outside the functions to be watched */
    uint8_t inside[1 << 16];    /* by thread: depth of watched allocators it is in */
};

/* A record that is no segment: header and payload. */
struct raw {
    enum raw_type type;
    uint32_t argument, slot, small;
    uint32_t count;
    const uint64_t *word; /* the payload */
};

/* Id of the heap with that state pointer, a new one if there is none. */
uint32_t feed_heap(struct feed *f, uint64_t ud);
/* Id of the heap that a slot stands for. */
uint32_t feed_slot(struct feed *f, uint32_t slot);

/* A new file begins: it is to be told all states anew. */
void feed_forget_states(struct feed *f);

/* RAW_VM between segments, as of struct mt_between; 0 also if what is to be told needs a new heap. */
size_t feed_change(void *feed, const uint8_t *at, size_t n, struct mt_change *change);

/* What a record of each type does, handle_define and so on; NULL, or what is wrong with it. */
#define RECORD(NAME, name, fields) const char *handle_##name(struct feed *f, const struct ring_##name *r);
#include "ljtrace/protocol/ring.def"

#endif
