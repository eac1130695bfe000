/* memtrace.h - the memtrace format: types that readers and writers of traces share.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Functions that read are in reader.h, functions that write in writer.h; this header includes both.
 *
 * A memtrace is the history of a program's heaps: every New, Free, Resize, Load, Store and Modify in program
 * order, with the static site (instruction) of each access and the call stack of each allocation. This library
 * is the only code that knows the bytes of a memtrace file. The recorder's collector writes through
 * `mt_writer`; everything else reads through `mt_reader`. The library depends on zstd and xxhash and on
 * nothing else of this project.
 *
 * Grammar of a binary trace (.ljt); docs/memtrace-format.md is the full specification:
 *
 *     file       = magic version chunk* [index trailer]
 *     chunk      = header payload           header: type, sizes, ordinals, checksums
 *     payload    = table zstd(stream)*      the streams of a chunk type are fixed, see memtrace/format/chunk.h
 *     DEFS       = record*                  strings, frames, stacks, sites, segments, heaps, protos, traces,
 *                                           info
 *     EVENTS     = tokens segments slots offsets record* codes ages
 *                                           accesses coded against predictors; the records are the rare
 *                                           events (new, free, resize, thread, mark...)
 *     CHECKPOINT = record*                  all live blocks, from time to time: reading can begin here
 *     SNAPSHOT   = record*                  all objects of a Lua state at one time, and their links
 *     CONTAINERS = number*                  the blocks that other allocators divided
 *     SURVIVORS  = number*                  the blocks that are never freed
 *     END        = record*                  totals, why the trace ended
 *     INDEX      = record*                  file offset, first event and first handle of each chunk
 *
 * A definition is in a chunk before the first chunk that uses it. Every chunk is decoded with a predictor that
 * starts empty, so that damage stays local and chunks can be decoded independently. The live blocks
 * (slot -> block) are the only state carried from chunk to chunk; only rare records change it.
 *
 * The same reader accepts classic text traces (`>>> N 69586984 352`), alone or mixed into other output, plain
 * or compressed with zstd, and delivers the same events. Their stacks and sites are 0.
 *
 * Nothing here is thread-safe: a reader or writer belongs to one thread. A function that fails returns
 * MT_ERROR (or NULL) and sets a sticky `struct mt_error`.
 */
#ifndef MEMTRACE_H
#define MEMTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is written, and the oldest version that is read. 1 is that of 0.1.0; since 2 there are CONTAINERS. */
#define MT_FORMAT_VERSION 2
#define MT_OLDEST_VERSION 1

/* Results. A reader returns MT_MORE if it delivered something and MT_END at the regular end of the input. */
enum mt_result { MT_ERROR = -1, MT_END = 0, MT_MORE = 1, MT_OK = 1 };

enum mt_error_code {
    MT_E_NONE,
    MT_E_IO,        /* a system call failed; text holds strerror */
    MT_E_FORMAT,    /* not a memtrace of any kind */
    MT_E_VERSION,   /* a memtrace of a version that this library cannot read */
    MT_E_CORRUPT,   /* a checksum is wrong, or the contents violate the grammar */
    MT_E_TRUNCATED, /* the file ends inside a chunk or before its END chunk */
    MT_E_MEMORY,    /* out of memory */
    MT_E_GROWING    /* as TRUNCATED, but the recorder is still writing the file */
};

struct mt_error {
    enum mt_error_code code;
    uint64_t offset; /* byte offset of the error in the file; in text: line number */
    char text[240];  /* one line: the cause and, if there is one, the remedy */
};

/* What happened: MT_NEW and so on. memtrace/kinds.def says what each kind means; letters are those of classic text. */
enum mt_kind {
#define MT_KIND(NAME, name, shown) MT_##NAME,
#include "memtrace/kinds.def"
    MT_KINDS
};

/* How a block was allocated. */
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

/* Key of the fact that reachability was determined at the end of the program; its value is "done". */
#define MT_INFO_REACH "reach"
/* Key of the fact that accesses were not recorded in all of the run; its value is "none" or "part". */
#define MT_INFO_ACCESSES "accesses"

/* How a sample of the blocks was made: see sample.h. mean: of a sample by bytes, the bytes of which one on average was
 * chosen; every: of a sample by blocks, N. If both are 0, all blocks are recorded. seed: of the random numbers. */
struct mt_sample {
    uint64_t mean, seed, every;
};

/* How the program can reach a block when it ends; see memtrace/blocks/block_graph.h. Blocks of Lua and mmap heaps are
 * not classified: they are roots, from which other blocks are reached. */
enum mt_reach {
    MT_REACH_FULL,     /* by pointers to the beginnings of blocks; no event is written */
    MT_REACH_POSSIBLE, /* only by chains that have a pointer into the interior of a block */
    MT_REACH_INDIRECT, /* only from lost blocks */
    MT_REACH_LOST,     /* not at all */
    MT_REACHES
};

/* What is wrong with a free (or a resize). */
enum mt_badfree {
    MT_BADFREE_INVALID,  /* no block is known to begin there, or to have begun there */
    MT_BADFREE_INSIDE,   /* the address is in the interior of a live block */
    MT_BADFREE_DOUBLE,   /* the block that began there was freed or moved before */
    MT_BADFREE_HEAP,     /* the block that begins there belongs to another heap */
    MT_BADFREE_MISMATCH, /* allocated and freed by functions that do not match; a Free follows */
    MT_BADFREES
};

/* Which allocator a block belongs to; heap id 0 is always the C heap. */
enum mt_heap_kind { MT_HEAP_MALLOC, MT_HEAP_LUA, MT_HEAP_MMAP, MT_HEAP_CUSTOM, MT_HEAP_KINDS };

/* What a block of a Lua heap contains: an object, or a part of one. */
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
    MT_TYPE_BUFFER,       /* for building strings */
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
    MT_VM_RECORD, /* the JIT compiler records a trace */
    MT_VM_OPT,    /* the JIT compiler optimises a trace */
    MT_VM_ASM,    /* the JIT compiler generates machine code */
    MT_VM_TRACE,  /* runs a trace */
    MT_VM_FAST,   /* runs a fast function; only in builds that distinguish it from INTERP */
    MT_VMS
};

/* What kind of code a frame belongs to. */
enum mt_frame_kind {
    MT_FRAME_HOST, /* machine code of an object file */
    MT_FRAME_LUA,  /* a Lua function; ip = address of the line's bytecode, or of a trace's machine code */
    MT_FRAME_FAST, /* a function of LuaJIT's libraries */
    MT_FRAME_C,    /* a C function that Lua calls; ip = its address */
    MT_FRAME_LUA_INLINED, /* a Lua function inlined in a trace */
    MT_FRAME_VM,      /* a part of the virtual machine: function = "GC", "JIT" ...; "parser": file and line
                             compiled */
    MT_FRAME_INLINED, /* a function that a compiler has inlined in that of the next frame; same ip as that */
    MT_FRAME_CUT,     /* no function: here the recorder has cut the stack, which has more frames */
    MT_FRAME_KINDS
};

#define MT_NO_HANDLE UINT64_MAX
#define MT_NEVER UINT64_MAX
#define MT_BUILD_ID_MOST 64

/* One event.
 *
 * All kinds have:
 *   kind    enum mt_kind
 *   thread  the tracer's number of the thread, from 1
 *   time    guest instructions executed since the start. It is exact for all kinds but accesses, TYPE, CALL and
 *           REACH, which have the time of the last other event, or of the start of the chunk, before them
 *
 * memtrace/kinds.def says which further fields each kind has; all others are unspecified.
 *
 * Accesses to memory that is no longer in a block are delivered only with MT_OPEN_FREED; they have `freed` set:
 *   beyond = 0  The access is to freed memory: bytes of a block that was freed or moved, and that no other
 *               block has used since. handle, heap and offset are those of that block; slot is unspecified.
 *   beyond = 1  The access is to no block, but begins near a live one. handle, heap and offset are those of the
 *               live block; offset is signed (int64_t), and negative before the block. slot is unspecified.
 */
struct mt_event {
    uint64_t addr;
    uint64_t size;
    /* number of the block: 0, 1, 2 ... in the order of the News of the whole trace; never reused */
    uint64_t handle;
    uint64_t time;
    union {
        uint64_t old_addr; /* RESIZE */
        uint64_t offset;   /* accesses */
    };
    union {
        uint64_t old_size; /* RESIZE */
        double weight;     /* NEW, FREE: of a block of a sample, see memtrace/sample.h; else 0 */
    };
    uint32_t ref;
    uint16_t thread; /* from 1 */
    uint8_t kind;    /* enum mt_kind */
    union {
        struct {
            uint8_t how : 4; /* NEW: enum mt_how; BADFREE: enum mt_badfree; STATE: enum mt_vm */
            /* FREE: 1 = not requested by the program: a New or Resize overlapped the block, or the memory that
             * contained it was freed. NEW: 1 = the block existed before the trace began. Else 0 */
            uint8_t implied : 1;
            uint8_t kernel : 1; /* access: 1 = made by a system call, to all `size` bytes. Else 0 */
            /* Access: 1 = it begins in the block and ends after it (but see `freed`). NEW with `implied`: 0 = the block
             * was inherited from the process that forked this one, 1 = this process made it. Else 0 */
            uint8_t beyond : 1;
            uint8_t freed : 1; /* access: 1 = see above. Else 0 */
        };
        struct {
            uint8_t : 5; /* how, implied */
            /* NEW, FREE, RESIZE: 1 = another allocator divides the block into blocks of its own at some time of the
             * trace. Its bytes never count as live: see mt_has_containers. Else 0 */
            uint8_t container : 1;
            uint8_t : 1; /* beyond */
            /* The same events of a container: 1 = its own allocator had not freed it when the trace ended. Else 0 */
            uint8_t kept : 1;
        };
    };
    uint32_t heap; /* heap id */
    uint32_t slot; /* small number of the live block, below the maximum number of live blocks; reused */
};

/* -- definitions ------------------------------------------------------------------------------------
 *
 * Ids count from 0 in the order of definition. String 0 is "", frame 0 is unknown, stack 0 is empty, heap 0 is
 * the C heap, site 0 is unknown (classic text). Pointers into a reader stay valid until mt_close.
 */

struct mt_frame {
    uint64_t ip;                     /* code address, 0 for frames that have none */
    uint32_t function, file, object; /* string ids, 0 = not known */
    uint32_t line;                   /* 0 = not known */
    uint32_t defined;                /* Lua functions: line on which the function begins; 0 = not known */
    uint32_t trace;                  /* number of the trace it runs in, 0 = none */
    uint32_t module;                 /* of a frame that was read: id of its mt_module + 1, 0 = not known */
    uint16_t nth; /* Lua functions: number of functions of the file that begin on the same line
                                        and precede this one; UINT16_MAX = that many or more */
    uint8_t kind;                    /* enum mt_frame_kind */
    uint8_t approximate;             /* 1 = the line is that of a nearby instruction, else 0 */
};
/* An object file that is or was mapped into the program. The address of its code in the file is ip - bias. */
struct mt_module {
    uint64_t start, size; /* of its code in memory */
    uint64_t bias;
    uint64_t mapped,
        unmapped;          /* from when to when, in guest instructions; unmapped = MT_NEVER: it still is */
    uint32_t object;       /* string id of its path */
    uint8_t build_id_size; /* 0 = it has none, or it is not known */
    uint8_t build_id[MT_BUILD_ID_MOST];
};
struct mt_stack {
    uint32_t parent; /* stack id of the caller, below this stack's id; 0 = this is the outermost frame */
    uint32_t frame;  /* innermost frame */
};
struct mt_site {
    uint64_t ip;
    uint32_t frame; /* frame of ip, 0 = not known */
    uint32_t size;  /* bytes accessed */
    uint8_t kind;   /* MT_LOAD, MT_STORE or MT_MODIFY */
};
struct mt_heap {
    /* How the program identifies the heap: pointer to the allocator's state. Lua states may share one; each is a heap. */
    uint64_t id;
    uint8_t kind; /* enum mt_heap_kind */
};

/* A Lua prototype: bytecode and its lines. Every execution of a bytecode instruction loads its 4 bytes from the
 * block. The last such load of a thread therefore determines the line to which its next accesses belong. */
struct mt_proto {
    uint64_t handle; /* of its block */
    uint32_t heap;
    uint32_t function, file; /* string ids; 0 = not known */
    uint32_t defined;        /* line where the function begins */
    uint16_t nth;            /* as of struct mt_frame */
    uint32_t offset;         /* of the first instruction in the block */
    uint32_t count;          /* number of instructions, 4 bytes each */
    const uint32_t *lines;   /* of each instruction; 0 = not known */
};
/* A trace of the JIT compiler. Sites in its machine code have frames of kind MT_FRAME_LUA or
 * MT_FRAME_LUA_INLINED. */
struct mt_trace {
    uint64_t addr, size; /* of its machine code; addresses are reused after a flush */
    uint64_t time;       /* when it was first run or found, in guest instructions */
    uint32_t heap, number;
    uint32_t frame; /* where it begins */
};

/* The pages of the process at one time, as its kernel reports them. Sizes are bytes. */
struct mt_pages {
    uint64_t time; /* in the unit of the events; events before and after it may have come while it was made */
    uint32_t reason;  /* string id: "first", "growth", "steady", "mark", "time", "request" or "end" */
    uint32_t name;    /* string id: of the mark */
    uint32_t page;    /* bytes of a page */
    uint32_t threads; /* of the process; 0 = not known */
    uint64_t before,
        after;        /* resident, before and after the pages were read: the process may have run meanwhile */
    uint64_t highest; /* the most that was ever resident so far; 0 = not known */
    uint64_t reserved; /* what a thread's stack reserves by default (ulimit -s); 0 = not known, or no limit */
    uint32_t mappings, regions; /* how many follow; if fewer are there, the rest is lost */
    uint32_t first_mapping, n_mappings, first_region, n_regions; /* those that were read, by their ids */
};
/* What a page of a run is; a combination. */
enum mt_page_state {
    MT_PAGE_PRESENT = 1,
    MT_PAGE_SWAPPED = 2,
    MT_PAGE_FILE = 4, /* of a file, or of shared memory */
    MT_PAGE_ALONE = 8 /* no other process has it mapped */
};
enum { MT_PAGE_STATE_BITS = 4 };
enum mt_mapping_flag {
    MT_MAPPING_READ = 1,
    MT_MAPPING_WRITE = 2,
    MT_MAPPING_EXECUTE = 4,
    MT_MAPPING_SHARED = 8,
    MT_MAPPING_HUGETLB = 16,  /* of reserved huge pages, which the kernel does not count as resident */
    MT_MAPPING_CONTINUED = 32 /* more runs of the mapping before; its sums are 0 */
};
/* A range of addresses with the same rights, or the first part of one with many runs. Its sums are the kernel's; what the
 * runs say may differ, since pages change meanwhile. */
struct mt_mapping {
    uint64_t start, size;
    uint64_t rss, pss, swap;
    uint64_t huge;       /* of rss: in huge pages */
    uint32_t flags;      /* of enum mt_mapping_flag */
    uint32_t name;       /* string id: a path, "[heap]", ...; 0 = it has none */
    uint32_t runs_size;  /* bytes; 0 = the state of its pages is not known */
    const uint8_t *runs; /* uvarints: pages << MT_PAGE_STATE_BITS | state; together they are all pages */
};
#define MT_RUNS_MOST 65535
/* A range that the program itself mapped, by calls of mmap, mremap, sbrk or shmat, and has not unmapped. Or memory of the
 * recorder inside the program: the only frame of its stack has MT_RECORDER as its function. */
#define MT_RECORDER "[recorder]"
/* The same of a heap of one of the arenas that glibc has for threads. */
#define MT_ARENA "[arena]"
/* The only frame of the stack of blocks that the program had before ljtrace attach has this as its function. */
#define MT_BEFORE_ATTACH "[before the attach]"
struct mt_region {
    uint64_t start, size;
    uint32_t stack;
};

/* An object of a Lua state at the time of a snapshot, as its garbage collector sees it. */
struct mt_object {
    uint64_t addr;
    uint64_t size; /* with its parts: array, hash, stack, closed-over value... */
    uint32_t name; /* string id. Userdata: its metatable's __name or its name in the registry; cdata: its C
                      type; functions and protos: `name file:line`; _G, registry, main thread: so; 0 = none */
    uint8_t type;  /* enum mt_type, MT_TYPE_STR to MT_TYPE_UDATA or MT_TYPE_OTHER */
    uint8_t dead;  /* 1 = nothing refers to it, but it has not been swept yet */
    uint8_t root;  /* 1 = a root of the collector: main thread, registry, metatables of types... */
};
enum mt_link_kind {
    MT_LINK_OTHER,
    MT_LINK_METATABLE,
    MT_LINK_ENV,
    MT_LINK_PROTO,    /* of a function; or of a proto that is defined within the proto */
    MT_LINK_UPVALUE,  /* name = its name, if known */
    MT_LINK_CONSTANT, /* of a proto or a trace */
    MT_LINK_ARRAY,    /* value in the array part; name = the index */
    MT_LINK_KEY,      /* key in the hash part */
    MT_LINK_VALUE, /* value in the hash part; name = string id of the key if it is a string, an integer or a
                      boolean; the latter two are written [-3], [true] */
    MT_LINK_STACK, /* slot of a thread's stack; name = `variable (file:line)` of the local variable, if known */
    MT_LINK_KINDS
};
struct mt_link {
    uint32_t from, to; /* objects of the same snapshot */
    uint32_t name;     /* see kind; else 0 */
    uint8_t kind;      /* enum mt_link_kind */
    uint8_t weak;      /* 1 = does not keep its target alive */
};
struct mt_snapshot {
    uint32_t name; /* string id of the name given by the program */
    uint32_t heap;
    uint64_t time;     /* guest instructions */
    uint64_t total;    /* bytes counted by the garbage collector: gc.total */
    uint64_t internal; /* bytes in no object: string table, buffers, the state itself */
    uint64_t event;    /* events before it in the file */
    const struct mt_object *objects;
    const struct mt_link *links;
    uint32_t n_objects, n_links;
};

/* How a trace ended. */
enum mt_ending {
    MT_ENDING_UNKNOWN,  /* no END chunk: the file is still being written, or its writer was killed */
    MT_ENDING_EXIT,     /* the program ended by itself */
    MT_ENDING_KILLED,   /* the tracer was killed; every event until then is in the file */
    MT_ENDING_EXEC,     /* the program was replaced by execve */
    MT_ENDING_LIMIT,    /* --max-size reached */
    MT_ENDING_STOPPED,  /* tracing was ended on request */
    MT_ENDING_DETACHED, /* the recorder left the program, which went on */
    MT_ENDINGS
};

/* Totals, as counted by the writer and kept in the END chunk. */
struct mt_totals {
    uint64_t events[MT_KINDS];
    uint64_t instructions; /* guest instructions executed */
    uint64_t nanoseconds;  /* wall clock from start to end */
    uint64_t foreign;      /* accesses to no block of a heap; they are not in the file */
    uint64_t dropped;      /* events that were left out or lost */
    uint64_t freed;        /* accesses to freed memory; not among the events above */
};

#ifdef __cplusplus
}
#endif

#include "memtrace/reader.h"
#include "memtrace/writer.h"

#endif
