/* writer.h - functions that write traces. Include memtrace.h instead.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_WRITER_H
#define MEMTRACE_WRITER_H

#include "memtrace/memtrace.h"
#include "memtrace/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The writer keeps a map of the live blocks: callers pass addresses, and the writer finds the blocks. Chunks are
 * compressed and written as they fill. After an I/O error (disk full...) the writer accepts events and drops them;
 * mt_writer_error returns the error. */
struct mt_writer;

struct mt_writer_options {
    int level;             /* zstd level, 0 = default (1) */
    uint32_t chunk_events; /* events per chunk, 0 = default (1 << 20) */
    /* Chunks of events between two checkpoints. 0 = default: at least 4, and so many that checkpoints are below two
     * percent of the file. */
    uint32_t checkpoint_interval;
    /* Compress and write in a thread. Errors are then reported some chunks later, or by mt_writer_flush. Not together
     * with a limit. After a fork of the process, only the parent may use this writer. */
    bool background;
    /* Write accesses to no block that begin at most this many bytes before or after a live block of heap 0.
     * 0 = count them as foreign. */
    uint32_t beside;
    /* Do not remember freed blocks: accesses to them then count as foreign, and a second free is an invalid one. */
    bool forget_freed;
    /* The program had blocks before the trace began. A Free or Resize of an address in no live block is counted
     * (mt_writer_older) and writes no event. */
    bool attached;
    /* Write a sample by blocks (memtrace/sample.h): only the events of the blocks that it chooses, and no prototypes,
     * because their blocks may be left out. The fact MT_INFO_SAMPLE_EVERY is the caller's to write. The trace ends
     * with the facts all_news and so on, which are about all blocks. */
    struct mt_sample sample;
};

/* Write to an open descriptor (seekable or not; the caller closes it). opts may be NULL. */
struct mt_writer *mt_writer_new(int fd, const struct mt_writer_options *opts, struct mt_error *err);
void mt_writer_info(struct mt_writer *w, const char *key, const char *value);
/* How many Frees and Resizes were of blocks that are older than the trace, or whose New may be missing
 * (mt_writer_gap). */
uint64_t mt_writer_older(const struct mt_writer *w);
/* The most bytes to which one of these blocks was resized. */
uint64_t mt_writer_older_most(const struct mt_writer *w);
uint64_t mt_writer_orphans(const struct mt_writer *w);
/* Of the bytes that were live when most were: those of blocks that became containers after that. The peak of their pieces is
 * lower. */
uint64_t mt_writer_peak_reserve(const struct mt_writer *w);
/* The containers that their own allocators have not freed yet: *bytes gets their size; returns their number. Not those
 * that a forked child inherited, nor those that a sample leaves out. */
uint64_t mt_writer_kept_containers(const struct mt_writer *w, uint64_t *bytes);

/* A new writer for the trace of a forked child of w's process. It has all definitions of w under the same ids. Its
 * trace begins, at w's time and in w's thread, with a New for each block that is live in w (`implied`, with the stack
 * of the block's New or last Resize; handles count from 0). w is not changed. NULL on error, with *err filled; that w
 * has failed is an error. */
struct mt_writer *mt_writer_fork(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                 struct mt_error *err);

/* As mt_writer_fork, for a trace of the same process that continues in another file. The News of live blocks have
 * `implied` and `beyond` set, except those of blocks that the process itself had inherited. Not while
 * mt_writer_is_whole is false: a snapshot or a list of pointers was begun and not ended. */
struct mt_writer *mt_writer_continue(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                     struct mt_error *err);
bool mt_writer_is_whole(const struct mt_writer *w);

/* Definitions. Equal strings, and stacks of equal parent and frame, get the same id again. */
uint32_t mt_writer_string(struct mt_writer *w, const char *s, size_t len);
uint32_t mt_writer_frame(struct mt_writer *w, const struct mt_frame *f); /* a new id each call */
uint32_t mt_writer_stack(struct mt_writer *w, uint32_t parent, uint32_t frame);
uint32_t mt_writer_site(struct mt_writer *w, const struct mt_site *s); /* a new id each call */
uint32_t mt_writer_heap(struct mt_writer *w, const struct mt_heap *h); /* a new id each call */

/* An object file was mapped at the current time; m->unmapped is ignored. And: the one that begins at `start` is no
 * longer mapped. */
void mt_writer_module(struct mt_writer *w, const struct mt_module *m);
void mt_writer_unmapped(struct mt_writer *w, uint64_t start);

/* The pages of the process at one time (struct mt_pages, whose ids of mappings and regions are ignored), then as many mappings
 * and regions as it says, with the same time. They are of this process only: a forked child's writer does not get them, nor
 * the writer of the next part. A mapping's runs are copied; more than MT_RUNS_MOST bytes are left out. */
void mt_writer_pages(struct mt_writer *w, const struct mt_pages *p);
void mt_writer_mapping(struct mt_writer *w, uint64_t time, const struct mt_mapping *m);
void mt_writer_region(struct mt_writer *w, uint64_t time, const struct mt_region *r);

/* Define a proto, whose block is the live one of `heap` at addr; without such a block nothing is defined. The handle
 * and heap in *p are ignored; its lines are copied. */
void mt_writer_proto(struct mt_writer *w, uint64_t addr, uint32_t heap, const struct mt_proto *p);
void mt_writer_trace(struct mt_writer *w, const struct mt_trace *t);

/* Thread and time of the events that follow. Time never decreases. */
void mt_writer_thread(struct mt_writer *w, uint16_t thread);
void mt_writer_time(struct mt_writer *w, uint64_t instructions);
/* For a trace that is made of another recording: nanoseconds since that began. From the first call on, they take the
 * place of the writer's own clock, which says when chunks were written. */
void mt_writer_clock(struct mt_writer *w, uint64_t nanoseconds);

/* Heap events. A New that overlaps live blocks first frees these; since no correct allocator does that, they count as
 * dropped in the totals. A Free or Resize of an address where no block of `heap` begins is written as MT_BADFREE; such
 * a Resize is then a New (but see `attached`). The last 65536 freed blocks are remembered until another block covers
 * them, in order to detect double frees and accesses to freed memory. */
void mt_writer_block_new(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, enum mt_how how,
                         uint32_t stack);
/* A block that the process had made before the trace began, of which the recorder learns now. Its New has `implied` and
 * `beyond` set. As after a gap (mt_writer_gap), blocks up to now may be others than they seem to be. Returns false, and writes
 * nothing, if a live block is at its place. */
bool mt_writer_block_earlier(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap,
                             uint32_t stack);
void mt_writer_block_free(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack);
/* As mt_writer_block_free, when the freeing function is known. `how` is the kind of allocation that it belongs to
 * (free: malloc and similar; delete: new; delete[]: new[]). If the block was allocated in another way, an MT_BADFREE
 * is written before the Free. */
void mt_writer_block_free_as(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_how how,
                             uint32_t stack);
/* The frees and resizes that follow may be of blocks whose New the recorder has not seen: they are no errors.
 * Such a Resize is a New. */
void mt_writer_lacks_news(struct mt_writer *w, bool lacks);
/* A mismatch of `how` with the way in which the block was allocated is written as by mt_writer_block_free_as. */
void mt_writer_block_resize(struct mt_writer *w, uint64_t old_addr, uint64_t addr, uint64_t size,
                            uint32_t heap, enum mt_how how, uint32_t stack);
/* Heaps in heaps. If a custom or Lua heap makes a New inside a live block of another heap (such as a pool's superblock
 * made by malloc), that block becomes a container: it is freed (`implied`; not counted as dropped), accesses belong to
 * the blocks within it, and accesses to its other bytes are foreign. When its own heap frees the container, that is no
 * bad free, and the blocks that are still live within it are freed (`implied`). One later Free or Resize of each such
 * block is legal and writes no event. */

/* A range of memory of `heap` is unmapped, as with munmap. Blocks of the heap are freed or cut by a Resize; if a block
 * is cut in two, the second part is a New. Blocks of other heaps in the range are freed (`implied`). A range without
 * blocks is no error. */
void mt_writer_unmap(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack);
/* A range of memory of `heap` is moved or resized, as with mremap: a Resize if the range is one whole block. */
void mt_writer_remap(struct mt_writer *w, uint64_t old, uint64_t old_size, uint64_t addr, uint64_t size,
                     uint32_t heap, uint32_t stack);
/* The system maps new memory here, for any purpose: the range is no longer freed memory. */
void mt_writer_mapped(struct mt_writer *w, uint64_t addr, uint64_t size);
/* Only [addr, addr + size) of `heap` remains: its blocks are freed or cut. O(live blocks). */
void mt_writer_trim(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack);

/* Free every live block of a heap: the heap itself is gone. */
void mt_writer_heap_free(struct mt_writer *w, uint32_t heap, uint32_t stack);

/* Write n accesses: sites[i] accessed addrs[i]. Accesses to no block are only counted, as foreign. */
void mt_writer_accesses(struct mt_writer *w, const uint32_t *sites, const uint64_t *addrs, size_t n);

/* -- segments --------------------------------------------------------------------------------------
 *
 * The same many times faster, for runs of accesses that always follow one another. A segment is such a run. The
 * addresses of its accesses are at constant distances from a few base addresses, its words, which differ each time
 * that the segment runs.
 */

struct mt_access {
    uint32_t site;
    uint32_t word;    /* index of the word */
    int32_t distance; /* of the access from the word */
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

/* Define a segment. Ids count from 0, a new one for each call; UINT32_MAX after an error or for an invalid segment.
 * The accesses of one word may be at most 65535 bytes apart. */
uint32_t mt_writer_segment(struct mt_writer *w, const struct mt_segment *s);
/* A virtual machine changes its state, as in mt_writer_state. */
struct mt_change {
    uint64_t uncounted; /* instructions executed besides those of segments */
    uint32_t heap, trace;
    enum mt_vm vm;
};
/* Reads what a stream has between segments. `take` gets the n >= 4 bytes that follow and returns how many of them it
 * has read; 0 = the stream ends here. It fills in *change if there is a change, and else leaves it alone. It must not
 * call the writer. */
struct mt_between {
    size_t (*take)(void *context, const uint8_t *at, size_t n, struct mt_change *change);
    void *context;
};
/* Write the segments that ran, from a stream of n bytes in the form of stream.h. Returns the number of bytes used, and
 * adds the instructions of the segments to *instructions. Data of the caller between segments is read by `between`; if
 * it is NULL, the function returns before such data. With `between`, this is many times faster than returning, calling
 * mt_writer_time with *instructions and `uncounted`, and then mt_writer_state. */
size_t mt_writer_stream(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions,
                        const struct mt_between *between);
/* Skip segments up to data that is not a segment: write no accesses, and only count instructions. */
size_t mt_writer_skip(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions);

/* A system call read (MT_LOAD), wrote (MT_STORE) or read and wrote (MT_MODIFY) `size` bytes at addr. Each block in the
 * range gets an access of its own, to exactly its bytes. If there is no block, the access is counted as foreign. */
void mt_writer_touch(struct mt_writer *w, enum mt_kind kind, uint64_t addr, uint64_t size);

/* Write an event that says nothing of a block: MARK, LOST or CALL, by its fields ref and size (memtrace/format/records.def,
 * PLAIN_EVENT). Its time and thread are those of the writer; ids that are not defined become 0. False if nothing was written:
 * the file has failed or reached its limit, or the kind is another one. mt_writer_lost also counts, and mt_writer_call leaves
 * out what readers know. */
bool mt_writer_event(struct mt_writer *w, const struct mt_event *ev);
void mt_writer_mark(struct mt_writer *w, uint32_t string);
/* The live block of `heap` at addr contains this type; without such a block nothing happens. */
void mt_writer_type(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_type type);
/* The virtual machine of `heap` changes its state. `trace` is used with MT_VM_TRACE only. */
void mt_writer_state(struct mt_writer *w, uint32_t heap, enum mt_vm vm, uint32_t trace);
/* A sample: the program is in `stack`, and the sample represents `weight` instructions (at least 1). */
void mt_writer_sample(struct mt_writer *w, uint32_t heap, enum mt_vm vm, uint32_t stack, uint64_t weight);
/* Machine code of a JIT trace calls a C function; `frame` is the Lua frame of the call. Nothing is written if readers
 * know the line without it. */
void mt_writer_call(struct mt_writer *w, uint32_t frame);
/* Which blocks the program can still reach when it is about to end. First call mt_writer_pointer for each word of its
 * memory and registers that may be a pointer to a block, then mt_writer_reach, which writes an MT_REACH for each block
 * that no chain of pointers to beginnings reaches from outside, and the fact MT_INFO_REACH. No other event may come
 * between. `at` is the address of the word, 0 for registers. `allocator`: the word is in memory from which malloc and
 * similar functions allocate; there, it counts only within live blocks. */
void mt_writer_pointer(struct mt_writer *w, uint64_t at, uint64_t value, bool allocator);
void mt_writer_reach(struct mt_writer *w);
void mt_writer_lost(struct mt_writer *w, uint64_t events, uint32_t reason_string);
/* The same, if heap events are among the missing ones. Blocks that are live now may have ended, and others may have
 * been made. So from now on a Free or Resize of a block that is not known, or may be another one than that of this
 * address, is no error: it is counted (mt_writer_orphans) and writes no event. If a New overlaps a block from before
 * the gap, the implied Free does not count as dropped, because it is one of the missing events. */
void mt_writer_gap(struct mt_writer *w, uint64_t events, uint32_t reason_string);

/* A snapshot, from begin to end. Objects come in any order and are numbered from 0. Links may refer to objects that
 * are written later, but only to objects of this snapshot. Strings may be defined meanwhile; other events only after
 * the end. Of *s only name, heap, total and internal are used. A snapshot that has no end when the next event comes is
 * not delivered to readers. */
void mt_writer_snapshot_begin(struct mt_writer *w, const struct mt_snapshot *s);
uint32_t mt_writer_object(struct mt_writer *w, const struct mt_object *o);
void mt_writer_link(struct mt_writer *w, const struct mt_link *l);
void mt_writer_snapshot_end(struct mt_writer *w);
/* Give up the snapshot that was begun, if there is one: readers will ignore what is in the file of it. */
void mt_writer_snapshot_drop(struct mt_writer *w);

/* Write everything so far to the file. Ends the current chunk. */
int mt_writer_flush(struct mt_writer *w);
/* Write the END chunk and the index, and free the writer. MT_ERROR if a write has failed; err may be NULL. */
int mt_writer_finish(struct mt_writer *w, enum mt_ending ending, struct mt_error *err);

/* Limit the size of the file. The chunk that would exceed the limit and all chunks after it are not written; their
 * events are counted, and mt_writer_finish writes an MT_LOST with their number and this reason. Call before the first
 * event, or right after mt_writer_fork. */
void mt_writer_limit(struct mt_writer *w, uint64_t bytes, const char *reason);
/* Events left out because of the limit so far; 0 while it is not reached. */
uint64_t mt_writer_limited(const struct mt_writer *w);

const struct mt_error *mt_writer_error(const struct mt_writer *w); /* code MT_E_NONE if there is no error */
uint64_t mt_writer_bytes(const struct mt_writer *w);               /* written to the file so far */
void mt_writer_totals(const struct mt_writer *w, struct mt_totals *out);

#ifdef __cplusplus
}
#endif
#endif
