/* writer_impl.h - the state of `struct mt_writer`, shared by writer.c and definitions.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_WRITER_IMPL_H
#define MEMTRACE_WRITE_WRITER_IMPL_H

#include "memtrace/base/intern.h"
#include "memtrace/base/table.h"
#include "memtrace/blocks/containers.h"
#include "memtrace/blocks/reach.h"
#include "memtrace/blocks/released.h"
#include "memtrace/format/records.h"
#include "memtrace/write/chunk_writer.h"
#include "memtrace/write/encoder.h"

/* Definitions made so far, by kind; as in the BASE record. */
struct def_counts {
    uint64_t strings, frames, stacks, sites, heaps, infos, segments;
};

/* The snapshot being written. */
struct snapshot_part {
    bool open;
    struct rec_snapshot head; /* its numbers count what stands in the parts before */
    uint64_t objects, links;  /* all so far */
    uint64_t from, to;        /* of the last link */
    struct buffer records;
};

/* Calls of traces told: whether all accesses of a segment (by its line in the codebook) are at the line of
 * the call's frame, and the stack that stands for the call (0: none yet). */
enum { WRITER_TOLD_CALLS = 512 };
struct told_call {
    uint32_t line, frame, stack;
    bool same;
};

struct mt_writer {
    struct snapshot_part snapshot;
    struct chunk_writer out;
    struct encoder enc;
    struct blockmap map; /* a block's note is its stack << HOW_BITS | how */
    struct freed_blocks freed;
    struct containers containers; /* with the same notes */
    struct released released;     /* pieces of containers that have ended */
    struct buffer defs;       /* DEFS chunk being made */
    struct intern strings, stacks;
    struct table frames, sites, heaps, infos; /* those that are not interned, for forks */
    struct table protos, traces;              /* the same; protos as struct kept_proto */
    uint8_t *types;                           /* of live blocks by slot, as told (enum mt_type) */
    uint32_t types_room;
    struct reach reach;      /* while pointers to blocks are given */
    uint64_t reach_page;     /* looked at last... */
    bool reach_page_is_heap; /* ... has a block of heap 0 */
    uint64_t inherited;      /* blocks, which have the handles from 0 */
    uint64_t *ordinals;      /* of live blocks by slot, as of mt_survivors */
    size_t ordinals_room;
    struct def_counts counts;  /* all */
    struct def_counts written; /* those in chunks before the one being made */
    struct mt_totals totals;
    uint32_t chunk_events;
    bool background;        /* chunks that are full go to a thread */
    uint32_t check_at;      /* events of the chunk at which it is to be seen whether it is full */
    uint16_t thread;        /* of the events that come */
    uint16_t chunk_thread;  /* what a reader of this chunk thinks */
    uint64_t call_accesses; /* accesses when the chunk began, the thread changed or a call was told last */
    uint32_t call_frame;    /* of the call, if that was last; else 0 */
    struct told_call told[WRITER_TOLD_CALLS];
    uint64_t chunk_first_event, chunk_first_handle, chunk_instructions;
    uint64_t handles;
    uint32_t beside;                     /* as of struct mt_writer_options */
    uint32_t checkpoint_interval,
        chunks_since_checkpoint;         /* EVENTS chunks: between LIVE ones, since the last */
    uint64_t checkpoint_written;         /* bytes in the file up to the last */
    struct mt_totals kept;               /* with a limit: totals and News of the chunks in the file */
    uint64_t kept_handles;
    uint32_t limit_reason; /* string id */
    bool cut_off;          /* at the limit: the map is further than the file */
};

enum { HOW_BITS = 4 };

/* What the note of a block in the writer's map says. */
static inline enum mt_how note_how(uint32_t note)
{
    return (enum mt_how)(note & ((1 << HOW_BITS) - 1));
}

static inline uint32_t note_stack(uint32_t note)
{
    return note >> HOW_BITS;
}

/* Define a segment, as the codebook's next, which callers need not know; false after an error. */
bool writer_segment(void *writer, const struct mt_segment *s);

/* What the encoder is told of the writer. */
static inline struct surroundings writer_surroundings(struct mt_writer *w)
{
    return (struct surroundings){&w->map,   &w->freed,      &w->totals, w->counts.heaps,
                                 w->beside, writer_segment, w};
}

/* Tell the reader of a thread switch before the next event. */
void writer_sync_thread(struct mt_writer *w);

/* The stream for the record of an event of this kind; NULL (and a dropped event) after an error. It is
 * followed by writer_end_event. */
struct buffer *writer_begin_event(struct mt_writer *w, enum mt_kind kind);
/* The same of an access to no live block: to freed memory, or beside a block. */
struct buffer *writer_begin_freed(struct mt_writer *w);
void writer_end_event(struct mt_writer *w);

/* Why a block is freed: the program did; another came to lie on it (a loss); it went with the memory it was a
 * piece of; another heap hands out its bytes from now on, and it becomes a container. */
enum writer_freeing { WRITER_FREED, WRITER_COVERED, WRITER_RELEASED, WRITER_MATERIAL };
void writer_free_slot(struct mt_writer *w, uint32_t slot, uint32_t stack, enum writer_freeing why);

/* Freed memory, [addr, addr + size), is taken again. */
void writer_cover(struct mt_writer *w, uint64_t addr, uint64_t size);

/* Does a new block of `heap` make this one a container: is it a piece of it, of another allocator's? */
bool writer_is_material(const struct mt_writer *w, uint32_t slot, uint64_t addr, uint64_t size,
                        uint32_t heap);
enum mt_heap_kind writer_heap_kind(const struct mt_writer *w, uint32_t heap);
/* The container of `heap` that begins at addr is freed, with all pieces in it; false if there is none. */
bool writer_free_container(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack);
/* All containers of a heap are freed. */
void writer_free_containers(struct mt_writer *w, uint32_t heap, uint32_t stack);
/* A heap gives out memory anew, so it has got back what it gave before. */
void writer_forget_containers(struct mt_writer *w, uint64_t base, uint64_t size, uint32_t heap);
/* A piece at addr has ended with its container: a free of it by `heap` is legal, once. */
void writer_note_released(struct mt_writer *w, uint64_t addr, uint32_t heap);
void writer_copy_containers(struct mt_writer *to, const struct mt_writer *from);

/* A block that was there before: of the process this one was forked from, or of this one. All of the former come
 * first. */
void writer_take_over(struct mt_writer *w, const struct block *block, bool inherited);

/* Write what is wrong with a free of an address where no block of `heap` begins. */
void writer_bad_free(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack);
/* A live block is to be freed or resized by the functions that `how` belongs to; MT_HOWS = not known. Write
 * it if it was made by others. */
void writer_check_how(struct mt_writer *w, uint32_t slot, enum mt_how how, uint32_t stack);

/* A New or Resize was counted, of the block in a slot. */
void writer_survivors_note(struct mt_writer *w, uint32_t slot);
/* All else is ready to end: say which blocks live. */
void writer_survivors(struct mt_writer *w);
void writer_survivors_free(struct mt_writer *w);

/* An EVENTS chunk was written: write the live blocks if it is time. */
void writer_checkpoint(struct mt_writer *w);

/* The slot of the block of `heap` that begins at addr, or NO_SLOT. */
uint32_t writer_slot_at(const struct mt_writer *w, uint64_t addr, uint32_t heap);
/* The buffer for one more definition when there are `count` of its kind, begun with BASE if it is empty; NULL
 * after an error. */
struct buffer *writer_def_buffer(struct mt_writer *w, uint64_t count);
/* What precedes a LUAFRAME or PROTO: the number of its function among those that begin on its line. */
void writer_nth(struct buffer *b, uint16_t nth);

/* Define Lua's protos and traces, and tell the types of blocks, in a new writer as in another; its blocks are
 * there.
 */
void writer_lua_copy(struct mt_writer *to, const struct mt_writer *from);
/* A block has begun: what the one before in its slot held does not count. */
static inline void writer_lua_new(struct mt_writer *w, uint32_t slot)
{
    if (slot < w->types_room)
        w->types[slot] = 0;
}
bool writer_lua_init(struct mt_writer *w);
void writer_lua_free(struct mt_writer *w);
/* The last chunk was written: if it fitted, what it holds is kept. */
void writer_note_kept(struct mt_writer *w);
/* All else is ready to end: if the limit was reached, go back to what was kept and say how much is missing.
 */
void writer_end_limited(struct mt_writer *w);
/* Begin a chunk, with a cold predictor. */
void writer_start_chunk(struct mt_writer *w);

bool writer_defs_init(struct mt_writer *w);
void writer_defs_free(struct mt_writer *w);
/* Define in a new writer what is defined in another, by the same ids. */
void writer_defs_copy(struct mt_writer *to, const struct mt_writer *from);
/* Write the definitions made since the last time as a chunk, if there are any. */
void writer_defs_flush(struct mt_writer *w);

/* Accesses so far, but for those to freed memory. */
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
