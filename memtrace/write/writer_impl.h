/* writer_impl.h - the state of `struct mt_writer` and the functions shared by the files of memtrace/write/.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_WRITER_IMPL_H
#define MEMTRACE_WRITE_WRITER_IMPL_H

#include "memtrace/base/intern.h"
#include "memtrace/base/array.h"
#include "memtrace/blocks/block_graph.h"
#include "memtrace/blocks/containers.h"
#include "memtrace/blocks/freed_blocks.h"
#include "memtrace/format/records.h"
#include "memtrace/sample.h"
#include "memtrace/write/chunk_writer.h"
#include "memtrace/write/encoder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- the blocks that a sample by blocks leaves out, and the totals of all blocks --
 *
 * The trace has no events of these blocks, but the writer knows them. So it finds that their frees are no errors, that
 * they are containers of other blocks, and by which of them the program can reach a block at its end. Whether a block is
 * in the sample is decided at its New, and stays so when it is resized or moved, or is inherited by a forked child.
 *
 * They have a map of their own, because the slots of recorded blocks are part of the format and have to be dense. */

/* What the program did, with recorded blocks and with others. A Resize frees the old size and allocates the new one. */
struct all_blocks {
    uint64_t news, frees, resizes;
    uint64_t allocated, freed; /* bytes */
};

struct unsampled {
    struct mt_sample sample; /* its `every` is 0 if all blocks are recorded: then there is nothing here */
    struct blockmap map;     /* with notes as in the writer's map of recorded blocks */
    struct freed_blocks freed;
    struct all_blocks all;
    uint64_t drawn; /* blocks for which it was decided whether they are in the sample */
};

bool unsampled_init(struct unsampled *u, const struct mt_sample *sample, bool forget_freed);
void unsampled_destroy(struct unsampled *u);

/* Is the next new block left out? */
static inline bool unsampled_leaves_out(struct unsampled *u)
{
    return u->sample.every && !mt_sample_chooses(&u->sample, u->drawn++);
}

/* The slot of the block that contains the byte at addr, or that begins at addr; NO_SLOT = none. */
static inline uint32_t unsampled_find(const struct unsampled *u, uint64_t addr)
{
    return u->sample.every ? blockmap_find(&u->map, addr) : NO_SLOT;
}

static inline uint32_t unsampled_at(const struct unsampled *u, uint64_t addr)
{
    return u->sample.every ? blockmap_at(&u->map, addr) : NO_SLOT;
}

/* Add a block. False when out of memory. */
bool unsampled_add(struct unsampled *u, const struct block *b);

/* -- ids of stacks --
 *
 * A stack is a frame and the stack of its callers, the parent; equal ones have one id.
 *
 * Ids count from 0, the empty stack, in the order in which stacks are first added. None is ever removed. A stack takes
 * 12 to 24 bytes: recursive programs have a million of them. */

struct stack_node {
    uint32_t parent, frame;
    uint32_t first; /* the first stack that was added with this parent; 0 = none */
};

/* A table is empty if everything is zero. */
struct stack_table {
    struct stack_node *nodes; /* by id */
    size_t room;
    uint32_t count;
    uint32_t *slots; /* a hash table of the ids that are not the first ones of their parents; 0 = free */
    uint32_t mask;   /* number of slots - 1 */
    uint32_t hashed; /* number of ids in it */
};

#define STACK_TABLE_FAILED UINT32_MAX

/* -- the writer -- */

/* Number of definitions written so far, by kind, as in the BASE record. */
struct def_counts {
    uint64_t strings, frames, stacks, sites, heaps, infos, segments;
};

/* The snapshot that is being written. */
struct snapshot_part {
    bool open;
    struct rec_snapshot head; /* its numbers count the objects and links of earlier parts */
    uint64_t objects, links;  /* numbers so far */
    uint64_t from, to;        /* last link written */
    struct buffer records;
};

/* Cache entry of a call from a Lua trace: whether all accesses of a segment, given by its line in the codebook,
 * are at the line of the call's frame, and the stack of the call (0 = not defined yet). */
enum { WRITER_CALL_MEMOS = 512 };
struct call_memo {
    uint32_t line, frame, stack;
    bool same;
};

struct mt_writer {
    struct snapshot_part snapshot;
    struct chunk_writer out;
    struct encoder enc;
    struct blockmap map; /* the note of a block is stack << HOW_BITS | how */
    struct freed_blocks freed;
    struct unsampled unsampled;
    struct containers containers; /* with the same notes */
    struct released released;     /* blocks that ended together with their container */
    uint64_t *container_list;     /* handles of all blocks that became containers */
    size_t container_count, container_room;
    struct buffer defs; /* DEFS chunk being built */
    struct intern strings;
    struct stack_table stacks;
    struct table frames, sites, heaps, infos; /* definitions that are not interned, kept for forks */
    struct table modules;                     /* likewise; those that are mapped have unmapped = MT_NEVER */
    struct table protos, traces;              /* likewise; prototypes as struct kept_proto */
    uint8_t *types;                           /* enum mt_type of live blocks, by slot */
    uint32_t types_room;
    uint32_t newest;          /* the slot of the last New; its block may have ended */
    struct block_graph graph; /* used while mt_writer_pointer adds pointers to blocks */
    uint32_t reach_recorded;  /* number of nodes that are recorded blocks; they come first */
    uint64_t reach_page;      /* the page examined last... */
    bool reach_page_is_heap;  /* ... and whether it has a block of heap 0 */
    uint64_t inherited;       /* number of inherited blocks; they have the first handles */
    uint64_t *ordinals;       /* of live blocks, by slot: see mt_survivors */
    size_t ordinals_room;
    struct def_counts counts;  /* all definitions */
    struct def_counts written; /* those in finished chunks */
    struct mt_totals totals;
    uint32_t chunk_events;
    bool background;        /* compress full chunks in a thread */
    uint32_t check_at;      /* number of events at which to check whether the chunk is full */
    uint16_t thread;        /* thread of the next events */
    uint16_t chunk_thread;  /* thread that readers of this chunk assume */
    uint64_t call_accesses; /* number of accesses at the last chunk start, thread switch or CALL event */
    uint32_t call_frame;    /* frame of the CALL event if that was the latest of these; else 0 */
    struct call_memo call_memos[WRITER_CALL_MEMOS];
    uint64_t chunk_first_event, chunk_first_handle, chunk_instructions;
    uint64_t handles;
    uint32_t beside;     /* as in struct mt_writer_options */
    bool attached;       /* the same */
    uint64_t older;      /* Frees and Resizes of blocks that are older than the trace */
    uint64_t older_most; /* the most bytes to which one of these was resized */
    bool lacks_news;     /* mt_writer_lacks_news */
    bool has_gaps;       /* heap events are missing: see mt_writer_gap */
    /* The most live bytes, the number of News until then, and of these bytes those of blocks that have become containers
     * since. */
    struct {
        uint64_t bytes, news, reserve;
    } peak;
    /* Blocks with lower handles were live, or had ended, at the last gap, or when blocks from before the trace were listed. */
    uint64_t gap_handles;
    uint64_t orphans; /* Frees and Resizes of blocks whose New may be missing */
    uint32_t checkpoint_interval,
        chunks_since_checkpoint; /* EVENTS chunks: minimum between checkpoints; since the last */
    uint64_t checkpoint_written; /* size of the file after the last checkpoint */
    struct mt_totals kept;       /* with a limit: totals and handles of the chunks that are in the file */
    uint64_t kept_handles;
    uint32_t limit_reason; /* string id */
    bool cut_off;          /* the limit was reached: the block map has events that are not in the file */
};

/* The id of a definition of which there are `count`; 0 if there is none with this id. */
static inline uint32_t known(uint32_t id, uint64_t count)
{
    return id < count ? id : 0;
}

enum { HOW_BITS = 4 };

/* Parts of the note of a block in the writer's map. */
static inline enum mt_how note_how(uint32_t note)
{
    return (enum mt_how)(note & ((1 << HOW_BITS) - 1));
}

static inline uint32_t note_stack(uint32_t note)
{
    return note >> HOW_BITS;
}

/* Define a segment as the next one of the codebook, without giving it an id for callers; false after an error. */
bool writer_segment(void *writer, const struct mt_segment *s);

/* Write a thread switch, if there was one, before the next event. */
void writer_sync_thread(struct mt_writer *w);

/* Begin an event: returns the stream for its record, or NULL, and counts a dropped event, after an error. The
 * caller appends the record and calls writer_end_event. */
struct buffer *writer_begin_event(struct mt_writer *w, enum mt_kind kind);
/* The same for an access outside live blocks: to freed memory or beside a block. */
struct buffer *writer_begin_freed(struct mt_writer *w);
void writer_end_event(struct mt_writer *w);

/* Why a block is freed: by the program; because another block overlaps it, which means that its Free was missed;
 * together with the memory that it is a part of; because another allocator divides it into its own blocks, and it
 * becomes a container. */
enum writer_freeing { WRITER_FREED, WRITER_COVERED, WRITER_RELEASED, WRITER_MATERIAL };

/* A live block: a recorded one, or one that the sample leaves out. slot: NO_SLOT = none. */
struct held {
    uint32_t slot;
    bool unsampled;
};

#define NO_BLOCK ((struct held){NO_SLOT, false})

static inline struct block *writer_held_block(struct mt_writer *w, struct held h)
{
    return h.unsampled ? &w->unsampled.map.blocks[h.slot] : &w->map.blocks[h.slot];
}

/* Any block, other than `except`, that overlaps a range. The block that begins at an address. */
struct held writer_held_overlap(const struct mt_writer *w, uint64_t addr, uint64_t size, struct held except);

/* The i-th of all slots, used or not; slot: NO_SLOT = there are fewer. */
static inline struct held writer_held_nth(const struct mt_writer *w, uint64_t i)
{
    if (i < w->map.used)
        return (struct held){(uint32_t)i, false};
    return (struct held){i - w->map.used < w->unsampled.map.used ? (uint32_t)(i - w->map.used) : NO_SLOT,
                         true};
}

/* Does a new block of `heap` make this block a container? It does if it is a part of it and the heaps differ. */
enum mt_heap_kind writer_heap_kind(const struct mt_writer *w, uint32_t heap);
/* Remember that the block at addr ended with its container, so that one later free of it by `heap` is no error. */
void writer_copy_containers(struct mt_writer *to, const struct mt_writer *from);

/* Write a block that existed before the trace: inherited from the parent process, or allocated earlier by this
 * process. All inherited blocks come first. */
void writer_take_over(struct mt_writer *w, const struct block *block, bool inherited);

/* Is it known that no event of this block is missing? Not of one from before the last gap (mt_writer_gap). */
static inline bool writer_is_certain(const struct mt_writer *w, const struct block *b)
{
    return b->handle >= w->gap_handles;
}

/* Store the ordinal of the New or Resize that was just counted for the block in a slot. */
void writer_survivors_note(struct mt_writer *w, uint32_t slot);
/* Write a chunk of one stream, which is empty afterwards. DEFS and EVENTS chunks have functions of their own. */
void writer_put_chunk(struct mt_writer *w, enum chunk_type type, struct buffer *b);
/* Write an ascending list of n numbers in chunks of a type. */
void writer_list(struct mt_writer *w, enum chunk_type type, const uint64_t *list, size_t n);

/* Write the list of all containers at the end, after all events. */
void writer_container_list(struct mt_writer *w);

/* Write the facts about all blocks at the end of a sample by blocks. */
void writer_all_blocks(struct mt_writer *w);

/* The slot of the block of `heap` that begins at addr, or NO_SLOT. */
uint32_t writer_slot_at(const struct mt_writer *w, uint64_t addr, uint32_t heap);
/* The buffer for one more definition when there are `count` of its kind. A new buffer begins with a BASE record.
 * NULL after an error. */
struct buffer *writer_def_buffer(struct mt_writer *w, uint64_t count);
/* Write what precedes a LUAFRAME or PROTO: the ordinal of its function among the functions that begin on its line. */
void writer_nth(struct buffer *b, uint16_t nth);

/* Copy the definitions of prototypes and traces, and the types of blocks, to a new writer, which has the blocks
 * already. */
void writer_lua_copy(struct mt_writer *to, const struct mt_writer *from);
/* Clear the type of the slot of a new block. */
static inline void writer_lua_new(struct mt_writer *w, uint32_t slot)
{
    if (slot < w->types_room)
        w->types[slot] = 0;
}
bool writer_lua_init(struct mt_writer *w);
void writer_lua_free(struct mt_writer *w);

bool writer_defs_init(struct mt_writer *w);
void writer_defs_free(struct mt_writer *w);
/* Copy all definitions to a new writer, under the same ids. */
void writer_defs_copy(struct mt_writer *to, const struct mt_writer *from);
/* Write the definitions since the last call as a chunk, if there are any. */
void writer_defs_flush(struct mt_writer *w);

/* Number of accesses so far, without those to freed memory. */
static inline uint64_t writer_accesses(const struct mt_writer *w)
{
    const uint64_t *n = w->totals.events;
    return n[MT_LOAD] + n[MT_STORE] + n[MT_MODIFY];
}

static inline bool writer_failed(const struct mt_writer *w)
{
    return w->out.err.code != MT_E_NONE;
}

#endif
