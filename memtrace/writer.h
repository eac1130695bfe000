/* writer.h - what a writer of traces calls; part of memtrace.h, which is to be included instead.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_WRITER_H
#define MEMTRACE_WRITER_H

#include "memtrace/memtrace.h"
#include "memtrace/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The writer keeps the map of live blocks; it is told addresses and finds out itself what is heap.
 * All its functions are cheap; chunks are compressed and written as they fill. After an I/O error
 * (disk full...) it goes on accepting events and drops them; mt_writer_error tells. */
struct mt_writer;

struct mt_writer_options {
    int level;             /* zstd level, 0 = default (1) */
    uint32_t chunk_events; /* events per chunk, 0 = default (1 << 20) */
    uint32_t
        checkpoint_interval; /* write all live blocks after so many chunks of events; 0 = default (at least 4,
                              and so seldom that it stays below two percent of the file) */
    bool
        background;    /* a thread compresses and writes: errors are known some chunks later, or by
                          mt_writer_flush. Not with a limit. No fork of the process may go on with this writer */
    uint32_t
        beside; /* accesses to no block that begin so many bytes or less before or after a live block of heap 0 are
                        written; 0 = they count as foreign */
    bool forget_freed; /* do not remember freed blocks: accesses to them count as foreign, and a second free
                          of one is an invalid one */
};

/* Write to an open descriptor (seekable or not; the caller closes it). opts may be NULL. */
struct mt_writer *mt_writer_new(int fd, const struct mt_writer_options *opts, struct mt_error *err);
void mt_writer_info(struct mt_writer *w, const char *key, const char *value);

/* A writer of a trace of its own for a forked child of w's process: it knows every definition of w by the
 * same id, and begins with a New (`implied`, with the stack of the block's New or last Resize) for each block
 * that lives in w, with handles from 0, at w's time and thread. w goes on as if nothing had been. NULL on
 * error, with *err filled; a w that has failed is one. */
struct mt_writer *mt_writer_fork(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                 struct mt_error *err);

/* The same for a trace that goes on in another file, from here: what lives was made by the process itself (`implied`
 * and `beyond`), but for what it had inherited, and the clock goes on. Only between whole things: not if snapshot or
 * pointers were begun and not ended. */
struct mt_writer *mt_writer_continue(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                     struct mt_error *err);
bool mt_writer_is_whole(const struct mt_writer *w);

/* Definitions; equal strings and equal (parent, frame) stacks are given once and the same id again. */
uint32_t mt_writer_string(struct mt_writer *w, const char *s, size_t len);
uint32_t mt_writer_frame(struct mt_writer *w, const struct mt_frame *f); /* a new id each call */
uint32_t mt_writer_stack(struct mt_writer *w, uint32_t parent, uint32_t frame);
uint32_t mt_writer_site(struct mt_writer *w, const struct mt_site *s); /* a new id each call */
uint32_t mt_writer_heap(struct mt_writer *w, const struct mt_heap *h); /* a new id each call */

/* The proto's block is the live one of `heap` at addr; p's handle and heap are not looked at, its lines are
 * copied. Without such a block nothing is defined. */
void mt_writer_proto(struct mt_writer *w, uint64_t addr, uint32_t heap, const struct mt_proto *p);
void mt_writer_trace(struct mt_writer *w, const struct mt_trace *t);

/* What holds for the events that follow. Time never goes back. */
void mt_writer_thread(struct mt_writer *w, uint16_t thread);
void mt_writer_time(struct mt_writer *w, uint64_t instructions);

/* Heap events. A New over live blocks first frees those it overlaps (counted as dropped in the totals:
 * the program's allocator does not do that). Free and Resize of an address where no block of `heap`
 * begins are written as MT_BADFREE; such a Resize then is a New. The last 65536 blocks freed stay known until
 * another block covers them, so that double frees and accesses to freed memory can be told. */
void mt_writer_block_new(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, enum mt_how how,
                         uint32_t stack);
void mt_writer_block_free(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack);
/* The same when it is known how it was freed: by the function that belongs to those that make blocks in the
 * way `how` (free: malloc or its like; delete: new; delete[]: new[]). If the block was made in a way of
 * another kind, an MT_BADFREE stands before the Free. */
void mt_writer_block_free_as(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_how how,
                             uint32_t stack);
/* A resize of a block that was made in a way of another kind than `how` is told in the same manner. */
void mt_writer_block_resize(struct mt_writer *w, uint64_t old_addr, uint64_t addr, uint64_t size,
                            uint32_t heap, enum mt_how how, uint32_t stack);
/* Heaps in heaps. A New of a custom or Lua heap inside a live block of another heap (a pool's superblock made
 * by malloc) makes that block raw material: it is freed (`implied`; not counted as dropped), the pieces own
 * the accesses to their bytes, and accesses to the others are foreign. When its own heap frees the
 * superblock, that is no bad free; the pieces still live in it are freed then (`implied`). A Free of such a piece
 * that comes later is legal, once, and gives no event; nor does a Resize of it. */

/* Memory of `heap` goes away by the range, as with munmap: blocks of the heap are freed, or cut by a Resize
 * (in two: the second part is a New), other heaps' blocks in the range are freed (`implied`). Nothing there
 * is no error. */
void mt_writer_unmap(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack);
/* A range of `heap` moves or changes its size, as with mremap: a Resize if it is one whole block. */
void mt_writer_remap(struct mt_writer *w, uint64_t old, uint64_t old_size, uint64_t addr, uint64_t size,
                     uint32_t heap, uint32_t stack);
/* The system maps new memory here, whoever it is for: what dead blocks had there is freed memory no more. */
void mt_writer_mapped(struct mt_writer *w, uint64_t addr, uint64_t size);
/* Of `heap` only [addr, addr + size) remains: blocks are freed or cut to it. O(live blocks). */
void mt_writer_trim(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack);

/* Free every live block of a heap: the heap itself is gone. */
void mt_writer_heap_free(struct mt_writer *w, uint32_t heap, uint32_t stack);

/* n accesses: sites[i] touched addrs[i]. Those outside blocks are counted as foreign and left out. */
void mt_writer_accesses(struct mt_writer *w, const uint32_t *sites, const uint64_t *addrs, size_t n);

/* The same, many times cheaper, for accesses that come together. A segment is a run of accesses that always
 * happen one after the other, to addresses that are `words` values, which differ from run to run, plus
 * constant distances. */
struct mt_access {
    uint32_t site;
    uint32_t word;    /* index of the value */
    int32_t distance; /* from it */
};
struct mt_segment {
    const struct mt_access *accesses;
    uint32_t count;        /* 1 .. MT_SEGMENT_MOST */
    uint32_t words;        /* 1 .. MT_SEGMENT_WORDS, each used by an access */
    uint32_t instructions; /* executed by the segment, at most MT_SEGMENT_INSTRUCTIONS */
};
#define MT_SEGMENT_MOST 64
#define MT_SEGMENT_INSTRUCTIONS 255
#define MT_SEGMENT_WORDS 21

/* Define a segment: a new id each call, from 0; UINT32_MAX after an error or if it is not as above. The
 * accesses of one word may lie up to 65535 bytes apart. */
uint32_t mt_writer_segment(struct mt_writer *w, const struct mt_segment *s);
/* Segments that ran, as stream.h has them, in n bytes. Ends before anything that is no such segment, which
 * may be the caller's. Returns how many bytes of the stream were used; adds the segments' instructions to
 * *instructions. */
size_t mt_writer_segments(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions);

/* A machine goes over to another state, as of mt_writer_state. */
struct mt_change {
    uint64_t uncounted; /* instructions executed besides those of segments */
    uint32_t heap, trace;
    enum mt_vm vm;
};
/* What a stream has between segments. `take` is told what stands there, of n bytes at least 4, and returns
 * how many are its own; 0 = none, the stream is to end here. It fills *change in if there is one, and leaves
 * it alone otherwise; it must not call the writer. */
struct mt_between {
    size_t (*take)(void *context, const uint8_t *at, size_t n, struct mt_change *change);
    void *context;
};
/* mt_writer_segments with something between the segments, many times cheaper than to end there and to call
 * mt_writer_time, with *instructions and `uncounted`, and mt_writer_state. */
size_t mt_writer_stream(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions,
                        const struct mt_between *between);
/* mt_writer_segments without recording the accesses. */
size_t mt_writer_skip(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions);

/* A system call read (MT_LOAD), wrote (MT_STORE) or both (MT_MODIFY) `size` bytes at addr: an access of its
 * own to each block in that range, of exactly the bytes in it. If there is none it is counted as foreign. */
void mt_writer_touch(struct mt_writer *w, enum mt_kind kind, uint64_t addr, uint64_t size);

void mt_writer_mark(struct mt_writer *w, uint32_t string);
/* The live block of `heap` at addr holds this; without such a block nothing happens. */
void mt_writer_type(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_type type);
/* `trace` counts with MT_VM_TRACE only. */
void mt_writer_state(struct mt_writer *w, uint32_t heap, enum mt_vm vm, uint32_t trace);
/* The program is in `stack`, and was for `weight` instructions (at least 1). */
void mt_writer_sample(struct mt_writer *w, uint32_t heap, enum mt_vm vm, uint32_t stack, uint64_t weight);
/* Machine code of a trace calls a function in C; `frame` is the place, of Lua. Left out where readers know it
 * without. */
void mt_writer_call(struct mt_writer *w, uint32_t frame);
/* Which blocks the program can still reach, when it is about to end: first each word of its memory and registers that
 * may be a pointer to a block, then mt_writer_reach, which writes an MT_REACH for each block to which no chain of them
 * leads from outside, and the fact MT_INFO_REACH. No other event may come between. The word is at the address `at`;
 * for registers, that is 0. `allocator`: the memory is one that malloc and its relatives give out; outside of live
 * blocks it is left over. */
void mt_writer_pointer(struct mt_writer *w, uint64_t at, uint64_t value, bool allocator);
void mt_writer_reach(struct mt_writer *w);
void mt_writer_lost(struct mt_writer *w, uint64_t events, uint32_t reason_string);

/* A snapshot, between begin and end: objects in any order, each gets the next number from 0; links may refer
 * to objects that are yet to come. Strings may be defined meanwhile; events come after the end. Of s only
 * name, heap, total and internal count. Links must be between objects that come. A snapshot that has no end
 * when the next event comes is not one for readers. */
void mt_writer_snapshot_begin(struct mt_writer *w, const struct mt_snapshot *s);
uint32_t mt_writer_object(struct mt_writer *w, const struct mt_object *o);
void mt_writer_link(struct mt_writer *w, const struct mt_link *l);
void mt_writer_snapshot_end(struct mt_writer *w);

/* Put everything so far into the file (ends the current chunk). */
int mt_writer_flush(struct mt_writer *w);
/* END chunk, index, and free the writer. MT_ERROR if anything could not be written; *err may be NULL. */
int mt_writer_finish(struct mt_writer *w, enum mt_ending ending, struct mt_error *err);

/* Let the file have at most so many bytes. The chunk that would go beyond and all that come after it are left
 * out, but counted: mt_writer_finish writes an MT_LOST with their number and this reason. Call it before the
 * first event, or right after mt_writer_fork. */
void mt_writer_limit(struct mt_writer *w, uint64_t bytes, const char *reason);
/* Events left out because of the limit so far; 0 while it is not reached. */
uint64_t mt_writer_limited(const struct mt_writer *w);

const struct mt_error *mt_writer_error(const struct mt_writer *w); /* code MT_E_NONE while all is well */
uint64_t mt_writer_bytes(const struct mt_writer *w);               /* written to the file so far */
void mt_writer_totals(const struct mt_writer *w, struct mt_totals *out);

#ifdef __cplusplus
}
#endif
#endif
