/* memtrace.h - the memtrace format: what a reader and a writer of traces see. Reading is in reader.h,
 * writing in writer.h; both come with this.
 *
 * A memtrace is the history of a program's heap: every New, Free, Resize, Load, Store and Modify,
 * in program order, with the static site (instruction) of each access and the call stack of each
 * allocation. This library is the only code that knows the bytes of a memtrace file; the recorder's
 * collector writes through `mt_writer`, everything else reads through `mt_reader`. It depends on
 * zstd and xxhash and on nothing of this project.
 *
 * Grammar of a binary trace (.ljt); docs/memtrace-format.md is the full specification:
 *
 *     file       = magic version chunk* [index]
 *     chunk      = header payload           header: type, flags, sizes, ordinals, checksums
 *     payload    = zstd( stream+ )          the streams of a chunk type are fixed, see memtrace/format/records.def
 *     DEFS       = record*                  strings, frames, stacks, sites, segments, heaps, protos, traces,
 *                                           info
 *     EVENTS     = tokens segments slots offsets record* codes fars
 *                                           accesses coded against predictors; the records are the rare
 *                                           events (new, free, resize, thread, mark...)
 *     CHECKPOINT = record*                  now and then, all live blocks: a reader can begin here
 *     SNAPSHOT   = record*                  all objects of a Lua state at one time, and their links
 *     SURVIVORS  = record*                  the blocks that are never freed
 *     END        = record*                  totals, why the trace ended
 *     INDEX      = record*                  file offset, first event and first handle of each chunk
 *
 * A definition is in a chunk before the first chunk that uses it. Every chunk decodes from a
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

#define MT_FORMAT_VERSION 1

/* Results. Readers: MT_MORE = something was delivered, MT_END = clean end of input. */
enum mt_result { MT_ERROR = -1, MT_END = 0, MT_MORE = 1, MT_OK = 1 };

enum mt_error_code {
    MT_E_NONE,
    MT_E_IO,        /* the system refused: text holds strerror */
    MT_E_FORMAT,    /* not a memtrace of any kind */
    MT_E_VERSION,   /* a memtrace, of a version this library does not know */
    MT_E_CORRUPT,   /* checksum wrong or contents break the grammar */
    MT_E_TRUNCATED, /* the file ends inside a chunk or before its END chunk */
    MT_E_MEMORY,    /* out of memory */
    MT_E_GROWING    /* the same as TRUNCATED, of a file that its recorder is still writing */
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
    MT_CALL,    /* machine code of a Lua trace calls a function in C: ref = stack id of the place */
    MT_REACH,   /* at the program's end, no pointer leads to a live block's beginning: ref = enum mt_reach */
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

/* The fact that it was looked which blocks the program can reach when it ends: "done". */
#define MT_INFO_REACH "reach"

/* How the program can reach a block when it ends, see memtrace/blocks/reach.h. It says nothing of blocks of Lua's and mmap's heaps:
 * they count as places from which others are reached. */
enum mt_reach {
    MT_REACH_FULL,     /* by pointers to beginnings of blocks; no event is written */
    MT_REACH_POSSIBLE, /* only by a chain with a pointer to somewhere within a block */
    MT_REACH_INDIRECT, /* only from lost blocks */
    MT_REACH_LOST,     /* by no pointer */
    MT_REACHES
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
    MT_FRAME_VM,      /* a part of the virtual machine: function = "GC", "JIT" ...; "parser": file and line
                         compiled */
    MT_FRAME_KINDS
};

#define MT_NO_HANDLE UINT64_MAX

/* One event. Fields not named for a kind are unspecified.
 *   all:     kind, thread, time (guest instructions since the start; exact for heap events, for
 *            accesses that of the last heap event or chunk start before them)
 *   NEW:     handle, addr, size, how, heap, implied, beyond, ref = stack id
 *   FREE:    handle, addr, size (of the block), heap, implied, ref = stack id
 *   RESIZE:  handle, addr, size (both new), old_addr, old_size, heap, ref = stack id
 *   access:  handle, addr, size (bytes accessed), offset (in the block), heap, kernel, beyond, freed,
 *            ref = site id (0 if kernel)
 *   TYPE:    handle, addr, size, heap, slot of the block, ref = enum mt_type
 *   REACH:   handle, addr, size, heap, slot of the block, ref = enum mt_reach
 *   STATE:   heap, how = enum mt_vm, ref = trace number
 *   SAMPLE:  heap (whose virtual machine it is; 0 = none runs), how = enum mt_vm (no sense if heap is 0),
 *            ref = stack id, size = guest instructions that it stands for, from 1
 *   CALL:    ref = id of a stack of one frame: the Lua line on whose behalf the thread now runs C code. It holds
 *            until the thread's next access from a JIT trace, its next fetch of a bytecode, or its next CALL.
 *            A CALL is left out if the last access of the trace before it has the same line
 *   BADFREE: addr, heap (it was freed to), how = enum mt_badfree, handle (of the block concerned, or
 *            MT_NO_HANDLE), offset (in that block), ref = stack id
 *   others:  see enum mt_kind
 *
 * An access with `freed` set is to memory that its block gave up (the block was freed, or was moved away) and
 * that no other block has taken since. Its slot is unspecified. If `beyond` is set as well it is to no block at all,
 * but begins near one that lives, which is named: offset is then a signed number, negative before the block. Both are
 * delivered with MT_OPEN_FREED only. */
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
                            before this trace began, in the process that was forked or, if `beyond` is set, in this one. Else 0 */
    uint8_t kernel : 1;  /* access: made by a system call, for all `size` bytes. Else 0 */
    uint8_t beyond : 1;  /* access: begins in the block and ends after it; NEW: see implied. Else 0 */
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
    uint16_t nth;                    /* of Lua functions: how many of the file that begin on the same line are
                                        before it; UINT16_MAX = that many or more */
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
    uint16_t nth;            /* as of struct mt_frame */
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
    uint32_t name; /* string id. Userdata: its metatable's __name or its name in the registry; cdata: its C
                      type; functions and protos: `name file:line`; _G, registry, main thread: so; 0 = none */
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
    MT_LINK_VALUE, /* value in the hash part; name = string id of the key, if it is a string; of integers and
                      booleans the string is [-3], [true] */
    MT_LINK_STACK, /* slot of a thread's stack */
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

#ifdef __cplusplus
}
#endif

#include "memtrace/reader.h"
#include "memtrace/writer.h"

#endif
