/* ring.h - the protocol between a recorder and the collector.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The recorder is the tool (inside Valgrind, without libc) or the native library in the program; "the tool" below means
 * either. It writes records into a ring of slabs in shared memory. The
 * collector (an ordinary program on another core) reads them. The cursor is in the shared header, and is
 * advanced only after the bytes before it are written. So if the tool is killed, everything up to the cursor
 * can still be read. A socket carries a token for each full slab to the collector, and a byte for each
 * emptied slab back; its end of file means that the other side is gone. The collector writes only one word of
 * the header, `full`, which the tool polls.
 * A program may close all its descriptors, so the native library has none: slabs are handed over by two counters in the
 * header, `filled` and `consumed`. The library waits for room (futex). The collector looks at `filled` some times in a second,
 * so that a program that is never short of room makes no system calls for the ring.
 *
 * Both sides are built together, so this protocol has no compatibility rules; RING_VERSION in ring.def only catches a
 * broken installation. It knows nothing of the memtrace format.
 *
 * Nearly all records are segments: lists of memory accesses by a superblock. Each access of a segment is at a
 * *word* plus a constant distance. All bytes of the ring travel from one core's cache to the other's (through
 * memory, if the collector is late), so segments are as short as possible: 4 bytes for the segment's
 * number, then 6 bytes for each word (memtrace/stream.h). Nothing is aligned.
 *
 * All other records (ring.def) begin with bit 31 set, which no segment's number has. They have a header of 8
 * bytes and `count` payload words of 8 bytes. The bits of the header are:
 *
 *     0-15 count   16-23 slot   24-30 type   31 is set   32-55 argument   56-63 small
 *
 * A part of the header that a record does not use is 0.
 * RAW_VM is an exception, as it is very frequent: its header is only the lower half, and it has two words.
 * Numbers are native-endian.
 */
#ifndef LJTRACE_PROTOCOL_RING_H
#define LJTRACE_PROTOCOL_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "ljtrace/protocol/recording.h"

#define RING_MAGIC 0x676e697274726a6cULL /* "ljrtring" */

/* The types of records, RAW_DEFINE and so on. */
enum raw_type {
#define RECORD(NAME, name, fields) RAW_##NAME,
#include "ljtrace/protocol/ring.def"
    RAW_TYPES
};

/* Slabs are large, so that tokens are rare: each token may wake the other process. These are the largest number and size. */
#define RING_SLABS 16
#define RING_SLAB_BYTES (2u << 20)
/* Space at a slab's end that is kept free: the most that a superblock or a record may write between two
 * checks. */
#define RING_MARGIN_BYTES (64u << 10)
#define RING_HEADER_BYTES 8192
#define RING_PROBLEM_BYTES 1024
#define RING_FILE_NAME "ljtrace-ring" /* of the shared memory, in /proc/PID/maps after "memfd:" */
#define RING_BYTES (RING_HEADER_BYTES + (uint64_t)RING_SLABS * RING_SLAB_BYTES)

/* The numbers and sizes of slabs, the best ones first. Others are used if there is not enough memory, or the limit on the size
 * of files, which shared memory counts as, is too low. The ring's header has those of the ring. */
enum { RING_SHAPES = 4 };
static const struct ring_shape {
    uint32_t slab_count, slab_bytes;
} ring_shapes[RING_SHAPES] = {{RING_SLABS, RING_SLAB_BYTES},
                              {4, RING_SLAB_BYTES},
                              {4, RING_SLAB_BYTES / 8},
                              {4, 2 * RING_MARGIN_BYTES}};
static inline uint64_t ring_shape_bytes(const struct ring_shape *shape)
{
    return RING_HEADER_BYTES + (uint64_t)shape->slab_count * shape->slab_bytes;
}

/* Events that the native library drops: while the ring is full, by their kinds, and those of signal handlers that were
 * too many to defer. */
enum ring_loss {
    RING_LOST_NEW,
    RING_LOST_FREE,
    RING_LOST_RESIZE,
    RING_LOST_OTHER,
    RING_LOST_IN_HANDLER,
    RING_LOSSES
};

/* What the launcher, or Valgrind's tool, has seen of the end. */
enum ring_ended {
    RING_RUNS,   /* the program runs, as far as it knows */
    RING_EXITED, /* the program has ended with a known status */
    RING_LEFT,   /* the recording is ended from outside, without the library; the program goes on */
    RING_OVER    /* the library is not there, or no more; how that came is not known */
};

/* A part of the program's address space. */
struct ring_range {
    uint64_t start, size;
};
enum { RING_OWN = 64 };

struct ring_header {
    uint64_t magic;
    uint32_t version;
    uint32_t current;                /* slab being written */
    uint64_t cursor;                 /* the next byte to write, an address in the tool's process */
    uint64_t limit;                  /* the slab is full when the cursor is past this */
    uint64_t slabs;                  /* address of slab 0 in the tool's process */
    uint32_t slab_count, slab_bytes; /* written by the process that makes the ring; powers of 2 */
    uint64_t instructions;           /* guest instructions executed by code without recorded accesses */
    uint64_t return_sp; /* stack pointer at which a pending call of a watched allocator ends; 0 = none */
    /* The first byte that may still be removed; 0 = all bytes are final. Set before the byte is written. */
    uint64_t held;
    /* How often the cursor was moved back; incremented before it moves. */
    uint64_t rewinds;
    /* Written by the collector: 1 = the file has reached --max-size and gets no more events. */
    uint32_t full;

    /* The rest is used only without a socket. */
    uint32_t filled;   /* slabs filled since the start; written by the library, which fills them in turn */
    uint32_t consumed; /* slabs of them that the collector has read; written by the collector */
    uint32_t sleeps;   /* written by the collector: 1 = it waits for `filled` to change */
    uint32_t bytes[RING_SLABS]; /* bytes of the slabs filled last */
    uint32_t begun;             /* 1 = the library was loaded and records */
    /* The thread id of the collector; 0 or FUTEX_OWNER_DIED, which the kernel writes (a robust futex) = it has ended. The
     * library may be in another pid namespace, so it can ask for the process by nothing else. */
    uint32_t collector;
    uint32_t ended; /* written by the launcher or the tool: enum ring_ended */
    int32_t status; /* the program's, as waitpid has it, if it is known (RING_EXITED) */
    uint32_t
        exiting; /* written by the library: 256 + the status that the program is about to exit with; 0 = none */
    uint32_t detached; /* written by the library: 1 = it records no more, and the program goes on */
    uint32_t
        process; /* written by the library: the process whose events these are, in its own pid namespace */
    /* How many seccomp filters the program has that permit the recorder's system calls. Written by the launcher, then by the
     * library. */
    uint32_t filters;
    uint32_t
        sandboxed; /* written by the collector: 1 = it has others, so the library makes no system calls any more */
    /* The library asks for a look at the filters, and the collector answers with the number of the latest question before
     * its look. */
    uint32_t filters_asked, filters_answered;
    uint32_t forks; /* written by the library: how many forks it has announced */
    uint32_t
        listening; /* written by the collector: for how many forks it has listened on their sockets so far */
    /* Each announced fork is counted in one of these in the end, unless the child is killed before. Written by forked
     * children: how many of them have a ring of their own, and how many have found that they will have none. Written by the
     * library: how many forks have failed. */
    uint32_t recorded, unrecorded, failed_forks;
    uint32_t
        unannounced; /* written by forked children that were not announced, and are not recorded: how many they are */
    /* Written by the library and by children of vfork: how many programs were started by posix_spawn and vfork. */
    uint32_t started;
    /* Written by `ljtrace attach` and `ljtrace detach`: 1 = the recording is about to end. Events are not recorded any
     * more, so that threads do not spend their time waiting for room, but come to where the library can be called. */
    uint32_t ending;
    /* Written by the library: the kernel's clock (CLOCK_MONOTONIC, nanoseconds) at time 0 of the recording, and the memory
     * that it has mapped for itself. More ranges than these are not written. */
    uint64_t clock;
    uint32_t own_count;
    struct ring_range own[RING_OWN];
    uint32_t looks;             /* written by the launcher: how many looks at the pages were asked for */
    uint64_t lost[RING_LOSSES]; /* written by the library: how many events were dropped so far */
    /* Lines for the user at the end: what was not recorded. Written by the library; each ends with a newline. */
    char problems[RING_PROBLEM_BYTES];

    struct recording recording; /* what is asked */
};
_Static_assert(sizeof(struct ring_header) <= RING_HEADER_BYTES, "the slabs begin after the header");

static inline uint64_t ring_bytes(const struct ring_header *ring)
{
    return RING_HEADER_BYTES + (uint64_t)ring->slab_count * ring->slab_bytes;
}

/* Is this the header of a ring, with slabs of a possible number and size? */
static inline bool ring_is_valid(const struct ring_header *ring)
{
    const uint32_t count = ring->slab_count, bytes = ring->slab_bytes;
    return ring->magic == RING_MAGIC && ring->version == RING_VERSION && count >= 2 && count <= RING_SLABS &&
           !(count & (count - 1)) && bytes > RING_MARGIN_BYTES && bytes <= RING_SLAB_BYTES;
}

/* Copy what is asked of the recording. Returns false if this is no such header, or what is asked is not possible. */
static inline bool ring_read_recording(const struct ring_header *ring, struct recording *to)
{
    *to = ring->recording;
    return ring_is_valid(ring) && recording_is_valid(to);
}

/* From the tool to the collector: a full slab. Or RING_FORK: the process forks at this point, and the token
 * carries the memory and the socket of the child's ring (SCM_RIGHTS). The child then sends a token with a
 * length, and "PID:NAME", its id and its file, over that socket. */
struct ring_token {
    uint32_t slab;
    uint32_t bytes;
};
#define RING_FORK 0xffffffffU

/* Bytes from the collector to the tool. Any other byte is part of its final message. */
#define RING_READY '\1' /* its output is open */
#define RING_SLAB_FREE '\2'
#define RING_TAKEN '\3'  /* instead of READY: the file has the trace of an earlier image of this process */
#define RING_BUSY '\5'   /* instead of READY: another collector is writing the file */
#define RING_REPORT '\4' /* the answer to RAW_REPORT: a line of text follows, up to another such byte */
#define RING_NOTE '\6'   /* a line for the user at the end follows, up to another such byte */

/* The numbers of heaps in the ring. That of a LuaJIT heap is the pointer that its allocator gets, that of a
 * pool its anchor. */
#define RAW_HEAP_POOL (1ULL << 63) /* set in the number of a pool, beside its anchor */
enum { RAW_HEAP_C = 0, RAW_HEAP_CUSTOM = 1 /* blocks of requests without a pool */, RAW_HEAP_MMAP = 2 };

/* Kinds of heaps declared by RAW_HEAP. A heap that is not declared is LuaJIT's. */
enum raw_heap_kind { RAW_KIND_CUSTOM, RAW_KIND_MMAP, RAW_HEAP_KINDS };

/* What a RAW_REGION says of a range. */
enum raw_region {
    RAW_REGION_MAPPED,
    RAW_REGION_UNMAPPED,
    RAW_REGION_DETACHED, /* the whole region that begins at the address is unmapped (shmdt) */
    RAW_REGIONS
};

/* Added to `how` of a FREE or RESIZE: the allocator has functions that are not observed, so the block may be one of which
 * no NEW was written. */
enum { RAW_HOW_UNKNOWN = 0x80 };

/* The most stacks that have a number. */
enum { RING_NODES = 1 << 17 };

/* Slots are short numbers of heaps, for headers. A slot is the C heap's until RAW_SLOT changes it. */
enum { RING_HEAP_SLOTS = 64 };

/* Ends a stack, in place of a code address, that has more frames than were recorded. Its name, for printf with the
 * number of frames that are kept. */
enum { RAW_CUT = 1 };
#define RING_CUT_NAME "[cut at %d]"
/* The same of a stack whose last frame has a caller that could not be found: its code has no call frame information. */
enum { RAW_UNKNOWN_CALLER = 2 };
#define RING_UNKNOWN_CALLER_NAME "[callers not found]"

/* Kinds of accesses. */
enum raw_access { RAW_LOAD, RAW_STORE, RAW_MODIFY };

/* An access of a segment: the number of the segment's word and the distance from it. kind: enum raw_access.
 */
struct raw_segment_access {
    uint64_t ip;
    uint32_t size, kind;
    int32_t distance;
    uint32_t word;
};

/* In the flags of an OBJECT record, above its type. */
enum { RAW_OBJECT_DEAD = 1 << 8, RAW_OBJECT_ROOT = 1 << 9 };

/* A block: where it begins and how large it is. */
struct raw_block {
    uint64_t addr, size;
};

/* A reference from one object to another; what: raw_link_what(). */
struct raw_link {
    uint64_t to, what;
};

/* A string in a record; it has no zero at its end. */
struct raw_text {
    const char *at;
    uint32_t bytes;
};

/* The stack of an event: a number that a NODE record has defined or, if that is 0, code addresses. */
struct raw_stack {
    uint32_t number, depth;
    const uint64_t *ips; /* from the innermost on */
};

/* The structs of the records in ring.def: struct ring_define and so on. */
#define RECORD(NAME, name, fields)                                                                           \
    struct ring_##name {                                                                                     \
        fields                                                                                               \
    };
#define ARGUMENT(x) uint32_t x;
#define SMALL(x) uint32_t x;
#define IN_HEAP(x) uint32_t x;
#define WORD(x) uint64_t x;
#define PAIR(x, y) uint32_t x, y;
#define TEXT(x) struct raw_text x;
#define TEXTS(x, y) struct raw_text x, y;
#define ITEMS(type, x)                                                                                       \
    const type *x;                                                                                           \
    uint32_t x##_count;
#define STACK(x) struct raw_stack x;
#include "ljtrace/protocol/ring.def"

/* A word of the ring, which need not be aligned. */
typedef uint64_t raw_word __attribute__((aligned(1), may_alias));
typedef uint32_t raw_half __attribute__((aligned(1), may_alias));

/* A bit in the first 4 bytes of all records that are not segments. */
#define RAW_RARE (1u << 31)

static inline uint64_t raw_heap_header(enum raw_type type, uint32_t argument, uint32_t slot, uint32_t how,
                                       uint32_t count)
{
    return RAW_RARE | (uint32_t)type << 24 | slot << 16 | count | (uint64_t)(argument & 0xffffff) << 32 |
           (uint64_t)how << 56;
}
static inline uint64_t raw_header(enum raw_type type, uint32_t argument, uint32_t count)
{
    return raw_heap_header(type, argument, 0, 0, count);
}
static inline bool raw_is_segment(const void *at)
{
    return !(*(const raw_half *)at & RAW_RARE);
}
static inline enum raw_type raw_type_of(uint64_t header)
{
    return (enum raw_type)(header >> 24 & 0x7f);
}
static inline uint32_t raw_count_of(uint64_t header)
{
    return header & 0xffff;
}
static inline uint64_t raw_pair(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

/* kind: enum mt_link_kind; name: an index or the key of a name. */
static inline uint64_t raw_link_what(uint32_t kind, bool weak, uint64_t name)
{
    return kind | (uint32_t)weak << 7 | name << 8;
}
static inline uint8_t raw_link_kind(uint64_t what)
{
    return what & 0x7f;
}
static inline bool raw_link_is_weak(uint64_t what)
{
    return what >> 7 & 1;
}
static inline uint64_t raw_link_name(uint64_t what)
{
    return what >> 8;
}

/* A word of RAW_POINTERS: the lower 47 bits are the pointer, the upper ones its own place, in words from the
 * base. */
enum { RAW_POINTER_BITS = 47, RAW_PLACE_BITS = 64 - RAW_POINTER_BITS };
static inline uint64_t raw_pointer_base(uint64_t at)
{
    return at & ~((8ULL << RAW_PLACE_BITS) - 1);
}
static inline uint64_t raw_pointer(uint64_t at, uint64_t value)
{
    return (at >> 3) << RAW_POINTER_BITS | (value & ((1ULL << RAW_POINTER_BITS) - 1));
}
static inline uint64_t raw_pointer_place(uint64_t base, uint64_t word)
{
    return base + (word >> RAW_POINTER_BITS << 3);
}
static inline uint64_t raw_pointer_value(uint64_t word)
{
    return word & ((1ULL << RAW_POINTER_BITS) - 1);
}

/* RAW_VM consists of 4 bytes, the count of instructions and raw_state(). */
enum { RAW_STATE_HEADER_BYTES = 4, RAW_STATE_BYTES = RAW_STATE_HEADER_BYTES + 2 * 8 };
static inline uint32_t raw_state_header(void)
{
    return (uint32_t)raw_header(RAW_VM, 0, 2);
}
/* The header of a record that is not a segment. */
struct raw_head {
    enum raw_type type; /* RAW_TYPES or more: unknown */
    uint32_t argument, slot, small;
    uint32_t skip, bytes; /* of the header, and of the whole record */
};
/* Read one, from where `size` bytes are, at least 4. bytes is 0 if the record has more, or more than one may have. */
static inline struct raw_head raw_head_at(const void *at, uint64_t size)
{
    const raw_half low = *(const raw_half *)at;
    struct raw_head head = {.type = raw_type_of(low), .skip = 8, .bytes = 8 * (1 + raw_count_of(low))};
    if (head.type == RAW_VM)
        head = (struct raw_head){.type = RAW_VM, .skip = RAW_STATE_HEADER_BYTES, .bytes = RAW_STATE_BYTES};
    if (head.bytes > size || head.bytes > RING_MARGIN_BYTES) {
        head.bytes = 0;
        return head;
    }
    const uint64_t header = head.type == RAW_VM ? low : *(const raw_word *)at;
    head.slot = header >> 16 & 0xff;
    head.argument = header >> 32 & 0xffffff;
    head.small = header >> 56;
    return head;
}
/* The second word of RAW_VM. The upper bits are the address, which has 47 bits and is divisible by 4. The
 * lower bits are the state as LuaJIT stores it: the number of a trace or, below 0, one of the other states.
 */
enum { RAW_STATE_BITS = 19, RAW_STATE_SHIFT = RAW_STATE_BITS - 2 };
static inline uint64_t raw_state(uint64_t address, int32_t state)
{
    return address << RAW_STATE_SHIFT | ((uint32_t)state & ((1u << RAW_STATE_BITS) - 1));
}
static inline uint64_t raw_state_address(uint64_t word)
{
    return word >> RAW_STATE_BITS << 2;
}
static inline int32_t raw_state_of(uint64_t word)
{
    return (int32_t)((uint32_t)word << (32 - RAW_STATE_BITS)) >> (32 - RAW_STATE_BITS);
}

#endif
