/* reader.h - functions that read traces. Include memtrace.h instead.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_READER_H
#define MEMTRACE_READER_H

#include "memtrace/memtrace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mt_reader;

enum mt_open_flags {
    MT_OPEN_DEFAULT = 0,
    MT_OPEN_SALVAGE = 1,   /* skip damaged chunks; each is counted and described */
    MT_OPEN_TEXT = 2,      /* read as classic text even if no line looks like it (an empty file is a trace) */
    MT_OPEN_FREED = 4,     /* also deliver accesses to freed memory, in program order */
    MT_OPEN_SNAPSHOTS = 8, /* keep snapshots for mt_snapshot; without this flag they are skipped */
    MT_OPEN_OVERLAPS =
        16 /* classic text: a New frees no live block; an access belongs to the newest block that
                              holds its address, a Free to the newest that begins there */
};

/* Open a trace of any kind; "-" is standard input. NULL on error, with *err filled. */
struct mt_reader *mt_open(const char *path, unsigned flags, struct mt_error *err);
void mt_close(struct mt_reader *r);
/* Size of a file that its recorder is still writing, when it was opened; 0 for any other file. Only this much of
 * it is read; then mt_next returns MT_ERROR with MT_E_GROWING. Call it right after mt_open. */
uint64_t mt_growing_size(const struct mt_reader *r);
/* Follow a plain binary file while its recorder writes it. The first call comes right after mt_open. Each call makes
 * available the chunks that are completely there, up to which mt_next reads before it returns MT_END. When the recorder
 * has ended, or from damage on, the rest of the file is made available and read as without following. */
enum mt_followed {
    MT_FOLLOW_ERROR = -1, /* see mt_reader_error */
    MT_FOLLOW_END,        /* all of the file was made available before */
    MT_FOLLOW_MORE,       /* there are new chunks */
    MT_FOLLOW_WAIT        /* there are none yet */
};
enum mt_followed mt_follow(struct mt_reader *r);
/* Read only the first `size` bytes: to read a growing file again, up to its earlier mt_growing_size. Call it right
 * after mt_open. */
void mt_limit_size(struct mt_reader *r, uint64_t size);

/* The next events in program order. Sets *events and *n (n > 0) and returns MT_MORE, or MT_END, or
 * MT_ERROR. The array is the reader's and valid until the next call. A trace cut off mid-file delivers
 * everything before the cut, then MT_ERROR with MT_E_TRUNCATED. */
int mt_next(struct mt_reader *r, const struct mt_event **events, size_t *n);

/* -- segments --------------------------------------------------------------------------------------
 *
 * mt_next_batch delivers the same events as mt_next, several times faster, to readers that need not see each
 * access as an event. Programs repeat themselves: a *segment* is a run of accesses that always follow one
 * another, at constant distances from a few base addresses, the segment's *words*. A batch says which
 * segments ran, one after the other, and where their words were.
 */

/* One access of a segment. */
struct mt_segment_access {
    uint32_t site;
    uint32_t size;
    uint16_t offset; /* from the address of its word */
    uint8_t kind;    /* MT_LOAD, MT_STORE or MT_MODIFY */
    uint8_t word;    /* < words of the segment */
};
/* One word of a segment. Word w of the segment with id s is segments[s + w] of a batch. */
struct mt_segment_word {
    uint32_t first;  /* first word only: the segment's accesses are accesses[first .. first + count - 1] */
    uint32_t extent; /* end of this word's highest access, from its address; > INT32_MAX: never in a batch */
    uint8_t count;   /* first word: 1 .. MT_SEGMENT_MOST accesses, in program order; other words: 0 */
    uint8_t words;   /* first word only: words of the segment */
    uint8_t own;     /* accesses of this word */
};
/* Where a word of a segment was: the address of its lowest access, and the slot (as in struct mt_event) of the block
 * that contains all its accesses. MT_NO_SLOT: its accesses were to no block and do not count. */
struct mt_place {
    uint64_t addr;
    uint32_t slot;
};
#define MT_NO_SLOT UINT32_MAX
/* One step of a batch: a segment ran, or some single events follow. */
struct mt_step {
    uint64_t time;    /* of the segment's accesses, as in struct mt_event */
    uint32_t segment; /* id; or MT_STEP_EVENTS: the next `count` of the batch's events */
    uint16_t thread;  /* that ran the segment */
    uint16_t count;   /* events in this step: 1 .. MT_STEP_MOST */
};
#define MT_STEP_EVENTS 0
#define MT_STEP_MOST 512
struct mt_batch {
    const struct mt_step *steps;
    const struct mt_place *places;          /* for each segment that ran, the places of its words */
    const struct mt_event *events;          /* the single events */
    const struct mt_segment_word *segments; /* by id */
    const struct mt_segment_access *accesses;
    size_t n_steps, n_places, n_events;
    uint32_t n_segments; /* ids are below this; the meaning of an id never changes */
    uint64_t count;      /* events in all steps */
};
/* As mt_next; the two may be mixed. Everything in *p is the reader's, valid until the next call. */
int mt_next_batch(struct mt_reader *r, struct mt_batch *p);

/* Do not deliver accesses, except those of system calls and, if requested, those to freed memory. This is many
 * times faster, because the others are not decoded; mt_reader_stats counts them as `passed` at the end of each
 * chunk. Call it before the first event. It has no effect on classic text. */
void mt_pass_accesses(struct mt_reader *r);
/* As mt_pass_accesses, but deliver all events of the last n chunks of events (about a million each) of the range
 * to be read. Call it right after mt_open or mt_read_range. Traces that cannot be read in parts are delivered
 * whole. */
void mt_pass_to_last(struct mt_reader *r, uint32_t n);
/* Are accesses skipped at the current position? */
bool mt_passes(const struct mt_reader *r);

/* A place in a trace where reading can begin. */
struct mt_seek_point {
    uint64_t event;  /* events before it in the file, those of MT_OPEN_FREED included */
    uint64_t handle; /* News before it */
    uint64_t offset; /* in the file */
};

/* All seek points in order; the first is the start. *points is the reader's, valid until mt_close. Traces that
 * cannot be read in parts (text, pipes, files compressed again) have only the first. The current position does
 * not change. MT_OK or MT_ERROR. */
int mt_seek_points(struct mt_reader *r, const struct mt_seek_point **points, uint32_t *n);
/* Number of seek points before the first damage, by checksums. A seek point counts if nothing before it and
 * nothing in its checkpoint is damaged. Up to the last of them, reading a damaged trace in parts gives the same
 * events as reading it as a whole. Reads all chunks up to the first damaged one. At least 1. */
uint32_t mt_sound_seek_points(struct mt_reader *r);
/* Deliver the events from seek point `first` to seek point `end`, then MT_END. `end` = the number of seek points
 * is the end of the trace. Handles, slots, times and definitions are those of the whole trace. Any number of
 * readers can read parts of one file at the same time. */
int mt_read_range(struct mt_reader *r, uint32_t first, uint32_t end);

/* A block that is live at the current position; `slot` as in struct mt_event. */
struct mt_live_block {
    uint64_t handle, addr, size;
    uint32_t heap, slot;
    bool container, kept; /* as in struct mt_event */
};
/* Read up to the first event of the range, so that mt_live_block returns the blocks that are live there. Call it
 * right after mt_read_range. Damage is reported by the next call of mt_next. */
void mt_read_checkpoint(struct mt_reader *r);
/* May an event read so far, skipped accesses included, belong to this thread? Always true for thread 1. */
bool mt_met_thread(const struct mt_reader *r, uint16_t thread);
/* Greater than the numbers of all these threads. */
uint32_t mt_thread_end(const struct mt_reader *r);
/* Number of slots that may contain a live block (text: 0), and the block in a slot: false if there is none. */
uint32_t mt_count_slots(const struct mt_reader *r);
bool mt_live_block(const struct mt_reader *r, uint32_t slot, struct mt_live_block *out);

/* The blocks that are live at the end of the trace, from its SURVIVORS chunks: *n ordinals in ascending order; the
 * caller frees the list. The ordinal of a block is the number of News and Resizes before its own last one. False if
 * the file has no such list (it was cut off or limited in size), if the list is damaged, if the file is not
 * seekable, or with MT_OPEN_SALVAGE. The list is checked against the events when these are read. The current
 * position does not change. */
bool mt_survivors(struct mt_reader *r, uint64_t **ordinals, size_t *n);

/* Does the reader know the containers of the trace, from its CONTAINERS chunks? Then events and live blocks have
 * `container` and `kept`, which are 0 for all blocks if it does not: the file has no such list (it has no containers, it
 * was cut off, or its recorder is older), the list is damaged, or the file is not seekable or is followed. The current position does
 * not change. */
bool mt_has_containers(struct mt_reader *r);

const struct mt_error *mt_reader_error(const struct mt_reader *r);

/* Definitions read so far. An id out of range gives NULL (strings: ""). */
const char *mt_string(const struct mt_reader *r, uint32_t id);
const struct mt_frame *mt_frame(const struct mt_reader *r, uint32_t id);
const struct mt_stack *mt_stack(const struct mt_reader *r, uint32_t id);
const struct mt_site *mt_site(const struct mt_reader *r, uint32_t id);
const struct mt_heap *mt_heap(const struct mt_reader *r, uint32_t id);
const struct mt_proto *mt_proto(const struct mt_reader *r, uint32_t id);
const struct mt_trace *mt_trace(const struct mt_reader *r, uint32_t id);
const struct mt_module *mt_module(const struct mt_reader *r, uint32_t id);
uint32_t mt_count_strings(const struct mt_reader *r);
uint32_t mt_count_frames(const struct mt_reader *r);
uint32_t mt_count_stacks(const struct mt_reader *r);
uint32_t mt_count_sites(const struct mt_reader *r);
uint32_t mt_count_heaps(const struct mt_reader *r);
uint32_t mt_count_protos(const struct mt_reader *r);
uint32_t mt_count_traces(const struct mt_reader *r);
uint32_t mt_count_modules(const struct mt_reader *r);
const struct mt_pages *mt_pages(const struct mt_reader *r, uint32_t id);
const struct mt_mapping *mt_mapping(const struct mt_reader *r, uint32_t id);
const struct mt_region *mt_region(const struct mt_reader *r, uint32_t id);
uint32_t mt_count_pages(const struct mt_reader *r);

/* Snapshots read so far, with MT_OPEN_SNAPSHOTS; NULL out of range. Memory: 24 bytes an object, 16 a link. */
const struct mt_snapshot *mt_snapshot(const struct mt_reader *r, uint32_t i);
uint32_t mt_count_snapshots(const struct mt_reader *r);
/* Free the objects and links of a snapshot, whose numbers become 0; its other fields stay. For readers that need few
 * snapshots at a time. */
void mt_forget_snapshot(struct mt_reader *r, uint32_t i);

/* A fact about the recording by its key ("command", "pid", "tool", ...); "" if there is none. If a key occurs several
 * times, its last value counts: the trace of a forked child has the facts of its parent, then its own. */
const char *mt_info(const struct mt_reader *r, const char *key);
/* The mean number of bytes between samples, if the trace is a sample by bytes (memtrace/sample.h), so far as it is read;
 * else 0. */
uint64_t mt_sample_mean(const struct mt_reader *r);
/* N, if the trace is a sample by blocks, of which one of N on average was recorded; else 0. */
uint64_t mt_sample_every(const struct mt_reader *r);
/* The i-th fact; false if there are fewer. */
bool mt_info_at(const struct mt_reader *r, uint32_t i, const char **key, const char **value);

struct mt_reader_stats {
    bool is_text;             /* classic text, not binary */
    enum mt_ending ending;    /* valid after MT_END; MT_ENDING_UNKNOWN before */
    struct mt_totals totals;  /* from the END chunk; zeros before it */
    uint64_t events;          /* delivered so far */
    uint64_t passed;          /* accesses skipped, see mt_pass_accesses */
    uint64_t handles;         /* blocks made so far */
    uint64_t live_slots;      /* blocks live now */
    uint64_t unmatched_free;  /* bad frees, without: */
    uint64_t mismatched_free; /* those of blocks that functions of another family made; a Free follows each */
    uint64_t implied_free;    /* text: Frees without a line, of blocks that a New overlapped */
    uint64_t unmatched_access; /* text: accesses to no live block, dropped */
    uint64_t bytes_read;       /* of the file as stored; for progress */
    uint64_t bytes_total;      /* file size, 0 if not known (pipes) */
    uint64_t damaged_chunks;   /* skipped with MT_OPEN_SALVAGE */
    uint64_t instructions;     /* guest instructions up to here */
    uint64_t nanoseconds;      /* wall clock up to the last chunk read */
};
void mt_reader_stats(const struct mt_reader *r, struct mt_reader_stats *out);

/* With MT_OPEN_SALVAGE: description of the i-th damaged chunk (text: line) and its place, in one line; NULL after the
 * last. At most the first 100 are kept; damaged_chunks counts all. */
const char *mt_damage(const struct mt_reader *r, uint32_t i);

/* Dump the whole file: call `line(ctx, text)` for each record in the order of the file, without a newline. Each access
 * is a line of its own. Returns as mt_next. */
int mt_dump(const char *path, unsigned flags, void (*line)(void *ctx, const char *text), void *ctx,
            struct mt_error *err);

const char *mt_kind_name(enum mt_kind k);       /* "new", "free", ... */
bool mt_kind_has_stack(enum mt_kind k);         /* is `ref` of its events a stack id? */
char mt_kind_letter(enum mt_kind k);            /* 'N', 'F', ... '?' for those without one */
const char *mt_how_name(enum mt_how h);         /* "malloc", "calloc", ... */
const char *mt_badfree_name(enum mt_badfree b); /* "invalid", "inside", "double", ... */
const char *mt_heap_kind_name(enum mt_heap_kind k);
const char *mt_type_name(enum mt_type t);   /* "str", "tab", "array", ... */
const char *mt_reach_name(enum mt_reach r); /* "reachable", "possible", "indirect", "lost" */
const char *mt_vm_name(enum mt_vm v);       /* "INTERP", "C", "GC", ... */
const char *mt_frame_kind_name(enum mt_frame_kind k);
const char *mt_link_kind_name(enum mt_link_kind k); /* "metatable", "env", "array", ... */
const char *mt_ending_name(enum mt_ending e);       /* "unknown", "exit", "killed", ... */

#ifdef __cplusplus
}
#endif
#endif
