/* memtrace.h - the memtrace format: what a reader and a writer of traces see.
 *
 * A memtrace is the history of a program's heap: every New, Free, Resize, Load, Store and Modify,
 * in program order, with the static site (instruction) of each access and the call stack of each
 * allocation. This library is the only code that knows the bytes of a memtrace file; the recorder's
 * collector writes through `mt_writer`, everything else reads through `mt_reader`. It depends on
 * zstd and xxhash and on nothing of this project.
 *
 * Grammar of a binary trace (.ljt); docs/memtrace-format.md is the full specification:
 *
 *     file    = magic version chunk* [index]
 *     chunk   = header payload              header: type, flags, sizes, ordinals, checksums
 *     payload = zstd( stream+ )             the streams of a chunk type are fixed, see records.def
 *     DEFS    = record*                     strings, frames, stacks, sites, segments, heaps, protos, traces, info
 *     EVENTS  = tokens segments slots offsets record* codes fars   accesses against predictors; records
 *                                           are the rare events (new, free, resize, thread, mark...)
 *     LIVE    = record*                     all live blocks, now and then: a reader can begin here
 *     SNAPSHOT = record*                    all objects of a Lua state at one time, and their links
 *     END     = record*                     totals, why the trace ended
 *     INDEX   = record*                     file offset, first event and first handle of each chunk
 *
 * A definition stands in a chunk before the first chunk that uses it. Every chunk decodes from a
 * cold predictor, so that damage stays local and chunks can be decoded apart. The live-block state
 * (slot -> block) is carried from chunk to chunk by the rare records alone.
 *
 * The same reader accepts classic text traces (`>>> N 69586984 352`), alone or mixed into other
 * output, plain or zstd, and gives the same events; there the stacks and sites are 0.
 *
 * Nothing here is thread-safe: one reader or writer belongs to one thread. Functions that can fail
 * return MT_ERROR (or NULL) and leave a sticky `struct mt_error`.
 */
#ifndef MEMTRACE_H
#define MEMTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MT_FORMAT_VERSION 2 /* written; readers take every version up to it */

/* Results. Readers: MT_MORE = something was delivered, MT_END = clean end of input. */
enum mt_result { MT_ERROR = -1, MT_END = 0, MT_MORE = 1, MT_OK = 1 };

enum mt_error_code {
    MT_E_NONE,
    MT_E_IO,        /* the system refused: text holds strerror */
    MT_E_FORMAT,    /* not a memtrace of any kind */
    MT_E_VERSION,   /* a memtrace, of a version this library does not know */
    MT_E_CORRUPT,   /* checksum wrong or contents break the grammar */
    MT_E_TRUNCATED, /* the file ends inside a chunk or before its END chunk */
    MT_E_MEMORY     /* out of memory */
};

struct mt_error {
    enum mt_error_code code;
    uint64_t offset; /* byte offset in the file where the trouble begins (line number for text) */
    char text[240];  /* one line, names the cause and, where there is one, the remedy */
};

/* What happened. The letters are those of the classic text form. */
enum mt_kind {
    MT_NEW,     /* N: a block came to life */
    MT_FREE,    /* F: it died */
    MT_RESIZE,  /* R: it changed size and perhaps place, and kept its handle */
    MT_LOAD,    /* L */
    MT_STORE,   /* S */
    MT_MODIFY,  /* M: load and store of the same bytes by one instruction */
    MT_MARK,    /* a named point of the program: ref = string id */
    MT_BADFREE, /* a free that is an error of the program; see enum mt_badfree */
    MT_LOST,    /* size events are missing here: ref = string id of the reason */
    MT_TYPE,    /* what a live block holds became known: ref = enum mt_type */
    MT_STATE,   /* a Lua state's virtual machine goes over to another state; how = enum mt_vm */
    MT_SAMPLE,  /* where the program is after so many instructions: ref = stack id, size = weight */
    MT_KINDS
};

/* How a block was made. */
enum mt_how {
    MT_HOW_MALLOC,
    MT_HOW_CALLOC,
    MT_HOW_REALLOC,
    MT_HOW_MEMALIGN,
    MT_HOW_CXX_NEW,
    MT_HOW_CXX_NEW_ARRAY,
    MT_HOW_LUA,
    MT_HOW_CUSTOM,
    MT_HOWS
};

/* What is wrong with a free (or a resize). */
enum mt_badfree {
    MT_BADFREE_INVALID,  /* no block begins or began there, as far as is known */
    MT_BADFREE_INSIDE,   /* the address is inside a live block, behind its beginning */
    MT_BADFREE_DOUBLE,   /* the block that began there is dead, or was moved away */
    MT_BADFREE_HEAP,     /* the block that begins there belongs to another heap */
    MT_BADFREE_MISMATCH, /* made and freed by functions that do not belong together: a Free follows */
    MT_BADFREES
};

/* Which allocator a block belongs to; heap id 0 is always the C heap. */
enum mt_heap_kind { MT_HEAP_MALLOC, MT_HEAP_LUA, MT_HEAP_MMAP, MT_HEAP_CUSTOM, MT_HEAP_KINDS };

/* What a block of a Lua heap holds: an object, or a part of one. */
enum mt_type {
    MT_TYPE_UNKNOWN,
    MT_TYPE_STR,
    MT_TYPE_UPVAL,
    MT_TYPE_THREAD,
    MT_TYPE_PROTO,
    MT_TYPE_FUNC,
    MT_TYPE_TRACE,
    MT_TYPE_CDATA,
    MT_TYPE_TAB,
    MT_TYPE_UDATA,
    MT_TYPE_TAB_ARRAY,    /* array part of a table */
    MT_TYPE_TAB_HASH,     /* hash part of a table */
    MT_TYPE_STACK,        /* Lua stack of a thread */
    MT_TYPE_STRING_TABLE, /* of all interned strings */
    MT_TYPE_BUFFER,       /* of strings being made */
    MT_TYPE_JIT,          /* the compiler's own: IR, snapshots, table of traces */
    MT_TYPE_GLOBAL,       /* GG_State: the state itself and its main thread */
    MT_TYPE_OTHER,        /* none of these */
    MT_TYPES
};

/* What a Lua virtual machine is doing. */
enum mt_vm {
    MT_VM_INTERP, /* interprets bytecode */
    MT_VM_C,      /* runs a C function */
    MT_VM_GC,
    MT_VM_EXIT,   /* leaves a trace */
    MT_VM_RECORD, /* the compiler records a trace, */
    MT_VM_OPT,    /* optimises it, */
    MT_VM_ASM,    /* makes machine code of it */
    MT_VM_TRACE,  /* runs a trace: ref = its number */
    MT_VM_FAST,   /* runs a fast function (only in builds that tell it from INTERP) */
    MT_VMS
};

/* What a frame is of. */
enum mt_frame_kind {
    MT_FRAME_HOST,    /* machine code of an object */
    MT_FRAME_LUA,     /* a Lua function; ip = address of the bytecode, or of machine code of a trace */
    MT_FRAME_FAST,    /* a function of LuaJIT's libraries */
    MT_FRAME_C,       /* a C function that Lua calls; ip = its address */
    MT_FRAME_INLINED, /* a Lua function inlined in a trace */
    MT_FRAME_VM,      /* a part of the virtual machine: function = "GC", "JIT" ...; "parser": file and line compiled */
    MT_FRAME_KINDS
};

#define MT_NO_HANDLE UINT64_MAX

/* One event. Fields not named for a kind are unspecified.
 *   all:     kind, thread, time (guest instructions since the start; exact for heap events, for
 *            accesses that of the last heap event or chunk start before them)
 *   NEW:     handle, addr, size, how, heap, implied, ref = stack id
 *   FREE:    handle, addr, size (of the block), heap, implied, ref = stack id
 *   RESIZE:  handle, addr, size (both new), old_addr, old_size, heap, ref = stack id
 *   access:  handle, addr, size (bytes accessed), offset (in the block), heap, kernel, beyond, freed,
 *            ref = site id (0 if kernel)
 *   TYPE:    handle, addr, size, heap, slot of the block, ref = enum mt_type
 *   STATE:   heap, how = enum mt_vm, ref = trace number
 *   SAMPLE:  heap (whose virtual machine it is; 0 = none runs), how = enum mt_vm (no sense if heap is 0),
 *            ref = stack id, size = guest instructions that it stands for, from 1
 *   BADFREE: addr, heap (it was freed to), how = enum mt_badfree, handle (of the block concerned, or
 *            MT_NO_HANDLE), offset (in that block), ref = stack id
 *   others:  see enum mt_kind
 * An access with `freed` set is to memory that its block had and gave up (it is dead, or was moved away) and
 * that no other block has taken since; its slot is unspecified. It is delivered with MT_OPEN_FREED only. */
struct mt_event {
    uint64_t addr;
    uint64_t size;
    uint64_t handle; /* 0, 1, 2 ... in order of the News of the whole trace; never reused */
    uint64_t time;
    union {
        uint64_t old_addr; /* RESIZE */
        uint64_t offset;   /* accesses */
    };
    uint64_t old_size; /* RESIZE */
    uint32_t ref;
    uint16_t thread;     /* the tracer's thread number, from 1 */
    uint8_t kind;        /* enum mt_kind */
    uint8_t how : 4;     /* NEW: enum mt_how; BADFREE: enum mt_badfree; STATE: enum mt_vm */
    uint8_t implied : 1; /* not seen. FREE: a New or Resize came to lie on or in the block, or the memory it
                            was a piece of was freed; NEW: the block lived
                            before this trace began, in the process that was forked. Else 0 */
    uint8_t kernel : 1;  /* access: made by a system call, for all `size` bytes. Else 0 */
    uint8_t beyond : 1;  /* access: begins in the block and ends behind it. Else 0 */
    uint8_t freed : 1;   /* access: to a block's former memory. Else 0 */
    uint32_t heap;       /* heap id */
    uint32_t slot;       /* dense number of the live block, < the most blocks ever live; reused */
};

/* Definitions. Ids count from 0 in order of definition; string 0 is "", frame 0 is unknown,
 * stack 0 is empty, heap 0 is the C heap, site 0 is unknown (classic text).
 * Pointers into a reader stay valid until mt_close. */
struct mt_frame {
    uint64_t ip;                     /* code address, 0 for frames that have none */
    uint32_t function, file, object; /* string ids, 0 = not known */
    uint32_t line;                   /* 0 = not known */
    uint32_t defined;                /* of Lua functions: the line where it begins; 0 = not known */
    uint32_t trace;                  /* number of the trace it runs in, 0 = none */
    uint8_t kind;                    /* enum mt_frame_kind */
    uint8_t approximate;             /* 1 = the line is that of a place near by, else 0 */
};
struct mt_stack {
    uint32_t parent; /* stack id of the callers, < this stack's id; 0 = this is the root */
    uint32_t frame;  /* innermost frame */
};
struct mt_site {
    uint64_t ip;
    uint32_t frame; /* frame of ip, 0 = not known */
    uint32_t size;  /* bytes accessed */
    uint8_t kind;   /* MT_LOAD, MT_STORE or MT_MODIFY */
};
struct mt_heap {
    uint64_t id;  /* what the program calls it: the allocator's state pointer */
    uint8_t kind; /* enum mt_heap_kind */
};

/* A Lua prototype: bytecode and its lines. Every execution of an instruction loads its 4 bytes from the
 * block: the last such load of a thread says which line the accesses that follow belong to. */
struct mt_proto {
    uint64_t handle; /* of its block */
    uint32_t heap;
    uint32_t function, file; /* string ids; 0 = not known */
    uint32_t defined;        /* line where the function begins */
    uint32_t offset;         /* in the block, of the first instruction */
    uint32_t count;          /* of instructions, 4 bytes each */
    const uint32_t *lines;   /* of each instruction; 0 = not known */
};
/* A trace of the JIT compiler. Sites in its machine code have frames of kind MT_FRAME_LUA or _INLINED. */
struct mt_trace {
    uint64_t addr, size; /* of its machine code; addresses are used again after a flush */
    uint64_t time;       /* when it was first run or met, in guest instructions */
    uint32_t heap, number;
    uint32_t frame; /* where it begins */
};

/* An object of a Lua state at the time of a snapshot, as its garbage collector sees it. */
struct mt_object {
    uint64_t addr;
    uint64_t size; /* with its parts: array, hash, stack, closed-over value... */
    uint32_t name; /* string id. Userdata: its metatable's __name; cdata: its C type; functions and protos:
                      `name file:line`; 0 = none */
    uint8_t type;  /* enum mt_type, MT_TYPE_STR to MT_TYPE_UDATA or MT_TYPE_OTHER */
    uint8_t dead;  /* 1 = nothing refers to it, and the sweep has not come by yet */
    uint8_t root;  /* 1 = the collector begins here: main thread, registry, metatables of types... */
};
enum mt_link_kind {
    MT_LINK_OTHER,
    MT_LINK_METATABLE,
    MT_LINK_ENV,
    MT_LINK_PROTO,    /* of a function; of a proto that is defined within */
    MT_LINK_UPVALUE,  /* name = its name, if known */
    MT_LINK_CONSTANT, /* of a proto or a trace */
    MT_LINK_ARRAY,    /* value in the array part; name = the index */
    MT_LINK_KEY,      /* key in the hash part */
    MT_LINK_VALUE,    /* value in the hash part; name = string id of the key, if it is a string */
    MT_LINK_STACK,    /* slot of a thread's stack */
    MT_LINK_KINDS
};
struct mt_link {
    uint32_t from, to; /* objects of the same snapshot */
    uint32_t name;     /* see kind; else 0 */
    uint8_t kind;      /* enum mt_link_kind */
    uint8_t weak;      /* 1 = does not keep alive what it refers to */
};
struct mt_snapshot {
    uint32_t name; /* string id of what the program calls it */
    uint32_t heap;
    uint64_t time;     /* guest instructions */
    uint64_t total;    /* bytes the collector counts: gc.total */
    uint64_t internal; /* those in no object: string table, buffers, the state itself */
    uint64_t event;    /* events in the file before it */
    const struct mt_object *objects;
    const struct mt_link *links;
    uint32_t n_objects, n_links;
};

/* How a trace ended. */
enum mt_ending {
    MT_ENDING_UNKNOWN, /* no END chunk (yet): still being written, or the writer was killed */
    MT_ENDING_EXIT,    /* the program ended by itself */
    MT_ENDING_KILLED,  /* the tracer vanished; every event up to then is here */
    MT_ENDING_EXEC,    /* the program was replaced */
    MT_ENDING_LIMIT,   /* --max-size reached */
    MT_ENDING_STOPPED, /* tracing was ended on request */
    MT_ENDINGS
};

/* Totals, as counted by the writer and kept in the END chunk. */
struct mt_totals {
    uint64_t events[MT_KINDS];
    uint64_t instructions; /* guest instructions executed */
    uint64_t nanoseconds;  /* wall clock from start to end */
    uint64_t foreign;      /* accesses seen that were to no block of the heap; not in the file */
    uint64_t dropped;      /* events lost on purpose or by need */
    uint64_t freed;        /* accesses to freed memory; not among the events above */
};

/* ---- reading ------------------------------------------------------------------------------- */

struct mt_reader;

enum mt_open_flags {
    MT_OPEN_DEFAULT = 0,
    MT_OPEN_SALVAGE = 1, /* skip damaged chunks and go on; each is counted and described */
    MT_OPEN_TEXT = 2,    /* classic text even if no line looks like it (an empty file is a trace) */
    MT_OPEN_FREED = 4,   /* deliver accesses to freed memory too, in their place among the others */
    MT_OPEN_SNAPSHOTS = 8 /* keep snapshots, for mt_snapshot; without it they are passed over */
};

/* Open a trace of any kind; "-" is standard input. NULL on error, with *err filled. */
struct mt_reader *mt_open(const char *path, unsigned flags, struct mt_error *err);
void mt_close(struct mt_reader *r);

/* The next events in program order. Sets *events and *n (n > 0) and returns MT_MORE, or MT_END, or
 * MT_ERROR. The array is the reader's and valid until the next call. A trace cut off mid-file delivers
 * everything before the cut, then MT_ERROR with MT_E_TRUNCATED. */
int mt_next(struct mt_reader *r, const struct mt_event **events, size_t *n);

/* The same events, several times cheaper, for those who need not see each access by itself. A program does the
 * same again and again: a *pattern* is a run of accesses, of which `words` places tell all addresses. */
struct mt_pattern_access {
    uint32_t site;
    uint32_t size;
    uint16_t offset; /* from the place of its word */
    uint8_t kind;    /* MT_LOAD, MT_STORE or MT_MODIFY */
    uint8_t word;    /* < words of the pattern */
};
struct mt_pattern {
    uint32_t first;  /* its accesses are accesses[first .. first + count - 1], in program order */
    uint32_t extent; /* of this word: the end of its highest access, from its place */
    uint8_t count;   /* 1 .. MT_SEGMENT_MOST; 0 = this is another word of a pattern before */
    uint8_t words;   /* what is said of word w stands in the pattern w behind this one */
    uint8_t own;     /* accesses of this word */
};
/* Where a word's lowest access was. All its accesses lie in that block, whole. */
struct mt_place {
    uint64_t addr;
    uint32_t slot; /* as of struct mt_event; MT_NO_SLOT: the word touched no block, its accesses do not count */
};
#define MT_NO_SLOT UINT32_MAX
/* What came next: a pattern, or events that are not of patterns. */
struct mt_step {
    uint64_t time;    /* of the pattern's accesses, as of struct mt_event */
    uint32_t pattern; /* id; or MT_STEP_EVENTS: the next `count` of the events */
    uint16_t thread;  /* of the pattern */
    uint16_t count;   /* events that it stands for: 1 .. MT_STEP_MOST */
};
#define MT_STEP_EVENTS 0
#define MT_STEP_MOST 512
struct mt_packed {
    const struct mt_step *steps;
    const struct mt_place *places; /* of the patterns' words, one after the other */
    const struct mt_event *events;
    const struct mt_pattern *patterns; /* by id */
    const struct mt_pattern_access *accesses;
    size_t n_steps, n_events;
    uint32_t n_patterns; /* ids are below this; what an id means never changes */
    uint64_t count;      /* events that all steps stand for */
};
/* As mt_next, and may be called in turns with it. Everything in *p is the reader's, valid until the next call. */
int mt_next_packed(struct mt_reader *r, struct mt_packed *p);

/* From now on deliver no accesses but those of system calls and, if asked for, to freed memory: many times
 * faster, for they are not decoded. mt_reader_stats counts them as `passed`, once a chunk is done. Call it before
 * the first event. Text has them all the same. */
void mt_pass_accesses(struct mt_reader *r);

/* A place in a trace where reading can begin. */
struct mt_point {
    uint64_t event;  /* events before it in the file, those of MT_OPEN_FREED included */
    uint64_t handle; /* News before it */
    uint64_t offset; /* in the file */
};

/* All such places in order; the first is the start. *points is the reader's, valid until mt_close. Traces
 * that cannot be read in parts (text, pipes, compressed once more) have just that one. Reading goes on where
 * it was. MT_OK or MT_ERROR. */
int mt_points(struct mt_reader *r, const struct mt_point **points, uint32_t *n);
/* From now on deliver the events from point `first` up to point `end` (their number: up to the end of the
 * trace), then MT_END. Handles, slots, times and definitions are those of the whole trace. Any number of
 * readers can read parts of one file at the same time. */
int mt_read_range(struct mt_reader *r, uint32_t first, uint32_t end);

const struct mt_error *mt_reader_error(const struct mt_reader *r);

/* Definitions read so far. An id out of range gives NULL (strings: ""). */
const char *mt_string(const struct mt_reader *r, uint32_t id);
const struct mt_frame *mt_frame(const struct mt_reader *r, uint32_t id);
const struct mt_stack *mt_stack(const struct mt_reader *r, uint32_t id);
const struct mt_site *mt_site(const struct mt_reader *r, uint32_t id);
const struct mt_heap *mt_heap(const struct mt_reader *r, uint32_t id);
const struct mt_proto *mt_proto(const struct mt_reader *r, uint32_t id);
const struct mt_trace *mt_trace(const struct mt_reader *r, uint32_t id);
uint32_t mt_count_strings(const struct mt_reader *r);
uint32_t mt_count_frames(const struct mt_reader *r);
uint32_t mt_count_stacks(const struct mt_reader *r);
uint32_t mt_count_sites(const struct mt_reader *r);
uint32_t mt_count_heaps(const struct mt_reader *r);
uint32_t mt_count_protos(const struct mt_reader *r);
uint32_t mt_count_traces(const struct mt_reader *r);

/* Snapshots read so far, with MT_OPEN_SNAPSHOTS; NULL out of range. Memory: 24 bytes an object, 16 a link. */
const struct mt_snapshot *mt_snapshot(const struct mt_reader *r, uint32_t i);
uint32_t mt_count_snapshots(const struct mt_reader *r);

/* Facts about the recording by key ("command", "pid", "tool", ...; text "" when absent; of a key given
 * several times the last: a forked child's trace holds its parent's facts, then its own), and the i-th. */
const char *mt_info(const struct mt_reader *r, const char *key);
bool mt_info_at(const struct mt_reader *r, uint32_t i, const char **key, const char **value);

struct mt_reader_stats {
    bool is_text;              /* classic text, not binary */
    enum mt_ending ending;     /* valid after MT_END; MT_ENDING_UNKNOWN before */
    struct mt_totals totals;   /* from the END chunk; zeros before it */
    uint64_t events;           /* delivered so far */
    uint64_t passed;           /* accesses left out, see mt_pass_accesses */
    uint64_t handles;          /* blocks made so far */
    uint64_t live_slots;       /* blocks live now */
    uint64_t unmatched_free;   /* bad frees */
    uint64_t unmatched_access; /* text: accesses to no live block, dropped */
    uint64_t bytes_read;       /* of the file as stored; for progress */
    uint64_t bytes_total;      /* file size, 0 if not known (pipes) */
    uint64_t damaged_chunks;   /* skipped with MT_OPEN_SALVAGE */
    uint64_t instructions;     /* guest instructions up to here */
    uint64_t nanoseconds;      /* wall clock up to the last chunk read */
};
void mt_reader_stats(const struct mt_reader *r, struct mt_reader_stats *out);

/* With MT_OPEN_SALVAGE: what was wrong with the i-th damaged chunk (text: line), and where, in one line;
 * NULL past the last. At most the first 100 are kept; damaged_chunks counts all. */
const char *mt_damage(const struct mt_reader *r, uint32_t i);

/* Call `line(ctx, text)` for each record of the whole file, in file order, as text without a newline:
 * the dump that goldens are made of. Accesses are shown one to a line. Same results as mt_next. */
int mt_dump(const char *path, unsigned flags, void (*line)(void *ctx, const char *text), void *ctx,
            struct mt_error *err);

const char *mt_kind_name(enum mt_kind k);       /* "new", "free", ... */
char mt_kind_letter(enum mt_kind k);            /* 'N', 'F', ... '?' for those without one */
const char *mt_how_name(enum mt_how h);         /* "malloc", "calloc", ... */
const char *mt_badfree_name(enum mt_badfree b); /* "invalid", "inside", "double", ... */
const char *mt_heap_kind_name(enum mt_heap_kind k);
const char *mt_type_name(enum mt_type t); /* "str", "tab", "array", ... */
const char *mt_vm_name(enum mt_vm v);     /* "INTERP", "C", "GC", ... */
const char *mt_frame_kind_name(enum mt_frame_kind k);
const char *mt_link_kind_name(enum mt_link_kind k); /* "metatable", "env", "array", ... */
const char *mt_ending_name(enum mt_ending e); /* "unknown", "exit", "killed", ... */

/* ---- writing ------------------------------------------------------------------------------- */

/* The writer keeps the map of live blocks; it is told addresses and finds out itself what is heap.
 * All its functions are cheap; chunks are compressed and written as they fill. After an I/O error
 * (disk full...) it goes on accepting events and drops them; mt_writer_error tells. */
struct mt_writer;

struct mt_writer_options {
    int level;             /* zstd level, 0 = default (1) */
    uint32_t chunk_events; /* events per chunk, 0 = default (1 << 20) */
    uint32_t live_chunks;  /* write all live blocks after so many chunks of events; 0 = default (at least 4,
                              and so seldom that it stays below two percent of the file) */
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
/* Heaps in heaps. A New of a custom or Lua heap inside a live block of another heap (a pool's superblock made by
 * malloc) makes that block raw material: it is freed (`implied`; not counted as dropped), the pieces own the
 * accesses to their bytes, and accesses to the others are foreign. When its own heap frees the superblock,
 * that is no bad free; the pieces still live in it are freed then (`implied`). */

/* Memory of `heap` goes away by the range, as with munmap: blocks of the heap are freed, or cut by a Resize (in
 * two: the second part is a New), other heaps' blocks in the range are freed (`implied`). Nothing there is no
 * error. */
void mt_writer_unmap(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack);
/* A range of `heap` moves or changes its size, as with mremap: a Resize if it is one whole block. */
void mt_writer_remap(struct mt_writer *w, uint64_t old, uint64_t old_size, uint64_t addr, uint64_t size,
                     uint32_t heap, uint32_t stack);
/* Of `heap` only [addr, addr + size) remains: blocks are freed or cut to it. O(live blocks). */
void mt_writer_trim(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack);

/* Free every live block of a heap: the arena is gone. */
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
    uint32_t count; /* 1 .. MT_SEGMENT_MOST */
    uint32_t words; /* 1 .. MT_SEGMENT_WORDS, each used by an access */
    uint32_t instructions; /* executed by the segment, at most MT_SEGMENT_INSTRUCTIONS */
};
#define MT_SEGMENT_MOST 64
#define MT_SEGMENT_INSTRUCTIONS 255
#define MT_SEGMENT_WORDS 21

/* Define a segment: a new id each call, from 0; UINT32_MAX after an error or if it is not as above. The accesses
 * of one word may lie up to 65535 bytes apart. */
uint32_t mt_writer_segment(struct mt_writer *w, const struct mt_segment *s);
/* Segments that ran: for each its id, then its words. Ends before anything that is no such segment, which may
 * be the caller's: its first word is UINT32_MAX or more. Returns how many words of the stream were used; adds
 * the segments' instructions to *instructions. */
size_t mt_writer_segments(struct mt_writer *w, const uint64_t *stream, size_t n, uint64_t *instructions);
/* The same without recording the accesses. */
size_t mt_writer_skip(struct mt_writer *w, const uint64_t *stream, size_t n, uint64_t *instructions);

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
void mt_writer_lost(struct mt_writer *w, uint64_t events, uint32_t reason_string);

/* A snapshot, between begin and end: objects in any order, each gets the next number from 0; links may refer to
 * objects that are yet to come. Strings may be defined meanwhile; events come after the end. Of s only name,
 * heap, total and internal count. Links must be between objects that come. A snapshot that has no end when the next
 * event comes is not one for readers. */
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
 * first event. */
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
