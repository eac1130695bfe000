/* feed_impl.h - what the files of the feed share: its state and the current record.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * feed.c decodes the stream and handles heaps, accesses and events that are missing; feed_frame.c handles frames of C;
 * feed_module.c handles object files; feed_pages.c handles what the program maps itself; feed_existing.c handles
 * blocks from before the recording, feed_pool.c those of pools; feed_lua.c handles what is LuaJIT's: frames, types,
 * states, prototypes, traces, snapshots and samples.
 */
#ifndef LJTRACE_COLLECTOR_FEED_IMPL_H
#define LJTRACE_COLLECTOR_FEED_IMPL_H

#include "ljtrace/symbols/debuginfo.h"
#include "ljtrace/collector/feed.h"
#include "ljtrace/collector/map.h"
#include "ljtrace/collector/regions.h"
#include "ljtrace/collector/snapshot.h"
#include "ljtrace/collector/stacks.h"
#include "ljtrace/protocol/ring.h"

/* The word in which a Lua state keeps the state of its VM. */
struct machine {
    uint64_t addr, heap; /* heap: its number in the ring */
    uint64_t states;     /* as in RAW_MACHINE */
    uint32_t count;
    int32_t state;                  /* the last one written; MACHINE_UNREPORTED = none */
    uint32_t heap_id, heap_version; /* the heap's id, valid while heap_of has this version */
};
enum { MACHINE_UNREPORTED = INT32_MIN };

/* A cache of frames of calls from traces, by their code addresses. */
enum { FEED_CALLS = 256 };
struct feed_call {
    uint64_t ip;
    uint32_t frame, meanings; /* of struct stacks, when the frame was found */
};

/* The heap of a slot, and its id, valid while heap_of has this version. */
struct feed_slot {
    uint64_t heap;
    uint32_t id, version;
};

/* An object file that is mapped. */
struct feed_module {
    uint64_t start, size;
    char *named;     /* as frames name it */
    uint32_t object; /* its name as a string of the memtrace */
    struct debuginfo_object *file;
    uint64_t bias; /* the address in memory less that in the file */
};

/* The blocks that the program had before the recorder was attached. */
struct feed_existing {
    bool awaited;     /* they were asked for, and the list of them is not complete */
    struct map freed; /* while awaited: addresses that were freed since the recording began -> 1 */
    uint32_t stack;   /* 0 = not defined yet */
    uint64_t blocks, bytes;
    char problem[200]; /* empty = none */
};

/* The pools of the program, by feed_pool.c. */
struct feed_pools {
    struct pool_block *blocks; /* [room] */
    uint32_t *chains;          /* [room], by a hash of the address */
    uint32_t room, unused;     /* unused: the first of a chain of blocks */
    struct pool *pools;
    uint32_t count, pool_room;
    struct map pool_of; /* address of a pool -> its index */
    struct map heap_of; /* hash of the call that makes pools and their name -> their heap */
    uint32_t heaps;
    struct map name_of; /* hash of a name -> its number */
    char **names;       /* [name_count]; 0 = no name */
    uint32_t name_count;
};

/* How much of the run's accesses is in the file. */
enum recorded { RECORDED_WHOLE, RECORDED_NONE, RECORDED_PART };

struct feed {
    struct mt_writer *writer;
    struct mt_between between; /* for changes of VM states: feed_change */
    struct stacks stacks;
    struct mt_access access[MT_SEGMENT_MOST]; /* of the last segment defined */
    uint32_t accesses;
    struct map site_of;    /* hash of a site -> its id */
    struct map heap_of;    /* state pointer -> heap id */
    uint32_t heap_version; /* number of its changes, from 1 */
    struct feed_slot slot[RING_HEAP_SLOTS];
    struct snapshot snapshot;
    uint64_t lua_before; /* see feed_lua_before */
    struct feed_call call[FEED_CALLS];
    struct debuginfo *debuginfo;
    struct feed_module *modules;
    uint32_t module_count, module_capacity;
    int process;       /* see feed_process */
    uint64_t *payload; /* of the current record, aligned */
    uint64_t counted;  /* instructions in segments so far */
    uint32_t thread;
    uint32_t *lines; /* of the next Lua prototype */
    uint32_t line_count, line_capacity;
    struct machine *machines; /* the one that changed its state last is first */
    uint32_t machine_count;
    enum mt_ending ending;
    bool ended;
    bool sampled;                       /* only a sample of the blocks is recorded */
    bool off;                           /* the running thread's accesses are not recorded */
    bool switched_off;                  /* those of all threads are not recorded */
    bool began;                         /* a block was allocated */
    enum recorded recorded;             /* the accesses of the run so far */
    uint64_t lost_in_ring[RING_LOSSES]; /* events that this ring's library has dropped so far */
    uint64_t lost[RING_LOSSES];         /* with those before the process was forked */
    enum feed_request request;          /* not yet answered */
    char fork_socket[40];
    struct regions regions;
    struct regions *filled;  /* of feed_fill_regions */
    struct feed_pages pages; /* what RAW_PAGES has asked for */
    struct feed_existing existing;
    struct feed_pools pools;
    uint8_t unfocused[1 << 16]; /* by thread: it is outside the functions of --toggle-fn */
    uint8_t inside[1 << 16];    /* by thread: how many watched allocators it is inside */
};

/* A record that is not a segment: header and payload. */
struct raw {
    uint32_t argument, slot, small;
    uint32_t count;
    const uint64_t *word; /* the payload */
};

/* The id of the heap with this number in the ring; a new heap is added. */
uint32_t feed_heap(struct feed *f, uint64_t ud);
/* The id of a slot's heap. */
uint32_t feed_slot(struct feed *f, uint32_t slot);

/* The module that a code address belongs to, which frames name so. NULL = it is not known. */
const struct feed_module *feed_module_of(const struct feed *f, uint64_t ip, struct raw_text named);
/* The same, whatever its name. */
const struct feed_module *feed_module_at(const struct feed *f, uint64_t ip);
/* Free what is known of pools; and of modules. */
void feed_pools_free(struct feed *f);
void feed_modules_free(struct feed *f);

/* A block was freed or moved while existing blocks are awaited. */
void feed_existing_free(struct feed *f, uint64_t addr);

/* A new file begins: all VM states have to be written again. */
void feed_forget_states(struct feed *f);

/* A RAW_VM between segments, for struct mt_between. Also returns 0 if the change needs a heap that is not
 * known yet. */
size_t feed_change(void *feed, const uint8_t *at, size_t n, struct mt_change *change);

/* Handle a record of each type: handle_define and so on. They return NULL, or what is wrong with it. */
#define RECORD(NAME, name, fields) const char *handle_##name(struct feed *f, const struct ring_##name *r);
#include "ljtrace/protocol/ring.def"

#endif
