/* ring.h - what the tool and the collector say to each other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool (inside Valgrind, no libc) writes a raw stream of records into a ring of slabs in shared
 * memory; the collector (an ordinary program on another core) reads it. The cursor itself lives in the shared
 * header, and is advanced only after what is before it is written: whatever kills the tool, everything up
 * to the cursor is there to be read. A socket carries one token for each full slab to the collector
 * and one byte for each emptied slab back; its end of file tells either side that the other is gone. The
 * collector writes nothing but one word of the header, `full`, which the tool looks at when it likes.
 *
 * Both sides are built together, so this protocol has no compatibility rules; RING_VERSION only
 * catches a broken installation. It knows nothing of the memtrace format.
 *
 * Nearly all of it are segments: what a superblock did to memory. Each access of a segment is to a *word*
 * plus a constant distance. As each line of the ring goes from one core's cache to the other's, and through
 * memory, if the collector is behind, they are as short as can be: the segment's number, 4 bytes, then its
 * words, 6 bytes each (memtrace/stream.h). Nothing is aligned.
 *
 * Any other record begins with bit 31 set, which no segment's number has. It is a header of 8 bytes and
 * `count` payload words of 8 bytes:
 *     bits 0-15 count   bits 16-23 heap   bits 24-30 type   bit 31 set   bits 32-55 argument   bits 56-63 how
 * (how, enum mt_how, and heap, a heap's slot, are of heap events; else they are 0)
 * except RAW_VM, of which there are millions, too: its header is the lower half alone, and its words are two.
 * All of it is native-endian.
 */
#ifndef LJTRACE_PROTOCOL_RING_H
#define LJTRACE_PROTOCOL_RING_H

#include <stdbool.h>
#include <stdint.h>

#define RING_MAGIC 0x676e697274726a6cULL /* "ljrtring" */
#define RING_VERSION 12

/* Slabs are large enough to make tokens rare: each may wake the other side. Where no more memory can be had,
 * fewer do. */
#define RING_SLABS 16
#define RING_FEWEST_SLABS 4
#define RING_SLAB_BYTES (2u << 20)
/* Room kept free at a slab's end: the most one superblock or one record may write between two checks. */
#define RING_MARGIN_BYTES (64u << 10)
#define RING_HEADER_BYTES 4096
#define RING_BYTES (RING_HEADER_BYTES + (uint64_t)RING_SLABS * RING_SLAB_BYTES)
#define RING_FEWEST_BYTES (RING_HEADER_BYTES + (uint64_t)RING_FEWEST_SLABS * RING_SLAB_BYTES)

struct ring_header {
    uint64_t magic;
    uint32_t version;
    uint32_t current;      /* slab being written */
    uint64_t cursor;       /* next byte to write, as an address in the tool's process */
    uint64_t limit;        /* the slab is full when the cursor is past this */
    uint64_t slabs;        /* address of slab 0 in the tool's process */
    uint64_t instructions; /* guest instructions executed in code without recorded accesses */
    uint64_t return_sp;    /* stack pointer that ends a pending call of a watched allocator; 0 = none */
    uint64_t held;         /* first byte that may be taken back; 0 = none may. Set before it is written */
    uint64_t rewinds;      /* how often the cursor was moved back, counted before it is */
    uint32_t full;         /* by the collector: 1 = the file has reached --max-size and takes no more events */
};

/* A full slab, tool to collector. Or RING_FORK: the process forks here, the token carries the memory and the
 * socket of the child's ring (SCM_RIGHTS); over that socket comes "PID:NAME" of the child and its file, after
 * a token with its length. */
struct ring_token {
    uint32_t slab;
    uint32_t bytes;
};
#define RING_FORK 0xffffffffU

/* Bytes from the collector to the tool; anything else is the text of its last words. */
#define RING_READY '\1' /* its output is open */
#define RING_SLAB_FREE '\2'
#define RING_TAKEN '\3'  /* instead of READY: the file holds the trace of this process's image before exec */
#define RING_BUSY '\5'   /* instead of READY: another collector is writing the file */
#define RING_REPORT '\4' /* the answer to RAW_REPORT: a line of text comes up to the next of these */
#define RING_NOTE '\6'   /* a line for the user when the recording ends comes up to the next of these */

enum raw_type {
    RAW_DEFINE, /* a segment, of the next number from 0: instructions | words << 32, then for each access
                   {code address, size | kind << 32,  distance | word << 32}. Argument 1: the accesses of the
                   segment before come first */
    RAW_THREAD, /* argument: the thread that runs from here on */
    RAW_FRAME, /* {code address, function bytes | object bytes << 32, address in the object's file}  function,
                   object, padded. The line is found by the last address, if it is not 0 */
    RAW_STACK, /* argument: a number, from here on, 1 to RING_KEPT_STACKS. Code addresses innermost first */
    RAW_NEW,   /* heap, how {addr, size, instructions} code addresses innermost first; or, here and in
                   FREE, RESIZE, TRIM, UNMAP and REMAP, none and as argument the number of a stack */
    RAW_FREE,  /* heap, how {addr, instructions} code addresses */
    RAW_RESIZE,   /* heap, how {old addr, addr, size, instructions} code addresses */
    RAW_TOUCH,    /* {addr, size} argument: enum raw_access. A system call read or wrote memory */
    RAW_ENTER,    /* the running thread enters a watched allocator: its accesses are not the program's */
    RAW_LEAVE,    /* it has left */
    RAW_CLOSE,    /* {heap, instructions}: every block of that heap is gone */
    RAW_SWITCH,   /* argument: 1 = accesses are recorded from here on, 0 = they are not */
    RAW_MARK,     /* {instructions, bytes} name, padded */
    RAW_INFO,     /* {key bytes | value bytes << 32} key value, padded */
    RAW_EXEC,     /* {instructions} argument 1: the program is about to be replaced; 0: that has failed */
    RAW_END,      /* {instructions} argument: enum mt_ending; nothing follows */
    RAW_LUAFRAME, /* {key, ip, line | defined << 32, kind | approximate << 8 | trace << 32, function bytes |
                     file bytes << 32} function file, padded: what a key in a stack stands for. argument: of a
                     Lua function, how many that begin on the same line are before it in the file */
    RAW_TYPE,     /* heap {addr} argument: enum mt_type */
    RAW_SLOT,    /* {heap} argument: a slot, below RING_HEAP_SLOTS, which stands for this heap from here on */
    RAW_VM,      /* {instructions, raw_state()} behind raw_state_header(): what was stored at an address.
                    Counts if it is the word with a machine's state and that is new */
    RAW_MACHINE, /* {address, heap, states} the word with the state of a heap's machine. argument: how many
                    states below 0 there are, 0 = the machine is gone; what each is: 4 bits, enum mt_vm */
    RAW_LINES,   /* {count} lines of the prototype that follows, two to a word; may come in parts */
    RAW_PROTO,   /* {addr, heap, defined | offset << 32, function bytes | file bytes << 32} function file.
                    argument: as of RAW_LUAFRAME */
    RAW_TRACE,   /* {heap, number, addr, size, instructions, key of its start} */
    RAW_HEAP,    /* {heap, name bytes} name, padded. argument: enum raw_heap_kind. A heap to be referred to */
    RAW_RENAME,  /* {heap, heap}: the second is called by the first's number from here on. argument 1: so is
                    the first still */
    RAW_TRIM,    /* {heap, addr, size, instructions} code addresses: only this range of the heap remains */
    RAW_UNMAP,   /* {heap, addr, size, instructions} code addresses: this range of the heap is gone */
    RAW_REMAP,   /* {heap, old addr, old size, addr, size, instructions} code addresses: a range has moved */
    RAW_MAPPED,  /* {addr, size} memory is taken here, by no block of the trace: what blocks had there is
                    theirs no more */
    RAW_FOCUS,   /* argument: 1 = accesses of the running thread are wanted from here on, 0 = they are not */
    RAW_REPORT,  /* argument: 1 = write all so far to the file; then answer by RING_REPORT */
    RAW_UNIVERSE,     /* {heap, instructions, bytes the state counts, bytes in no object, name bytes} name,
                         padded. A snapshot begins: objects, then links */
    RAW_NAME,         /* {key, bytes} text, padded: of objects and links of this snapshot */
    RAW_OBJECT,       /* {addr, size, key of its name or 0} argument: enum mt_type | dead << 8 | root << 9 */
    RAW_LINKS,        /* {from} pairs {to, enum mt_link_kind | weak << 7 | index or key of a name << 8} */
    RAW_UNIVERSE_END, /* it is whole */
    RAW_CALL,         /* {code address} machine code of a trace calls a function in C there */
    RAW_LOADED, /* {key bytes | path bytes << 32} key, path, padded: an object file was mapped that frames will
                   name by the key, and that is to be opened now, by the path. It may be gone soon */
    RAW_SAMPLE, /* {heap, instructions, weight} code addresses. argument: enum mt_vm. heap 0: no state runs */
    RAW_POINTERS, /* {base} raw_pointer()s: words of the program's memory and registers when it has ended. argument:
                     1 = of memory that malloc gives out */
    RAW_REACH, /* these were all: it is to be found which blocks they reach */
    RAW_TYPES
};

/* Numbers of heaps in heap events. A LuaJIT heap's is its allocator's state pointer, a pool's its anchor. */
#define RAW_HEAP_POOL (1ULL << 63) /* in the number of a pool, with its anchor */
enum { RAW_HEAP_C = 0, RAW_HEAP_CUSTOM = 1 /* blocks of requests without a pool */, RAW_HEAP_MMAP = 2 };

/* A heap not told by RAW_HEAP is LuaJIT's. */
enum raw_heap_kind { RAW_KIND_CUSTOM, RAW_KIND_MMAP, RAW_HEAP_KINDS };

/* Stacks that are told once and then referred to. */
enum { RING_KEPT_STACKS = 8192 };

/* Slots of heaps in headers; each stands for the C heap until another is told. */
enum { RING_HEAP_SLOTS = 64 };

/* Access kinds in RAW_DEFINE. */
enum raw_access { RAW_LOAD, RAW_STORE, RAW_MODIFY };

/* A word of the ring, which may lie anywhere. */
typedef uint64_t raw_word __attribute__((aligned(1), may_alias));
typedef uint32_t raw_half __attribute__((aligned(1), may_alias));

/* The first 4 bytes of what is no segment. */
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
static inline uint32_t raw_slot_of(uint64_t header)
{
    return header >> 16 & 0xff;
}
static inline uint32_t raw_how_of(uint64_t header)
{
    return header >> 56;
}
static inline enum raw_type raw_type_of(uint64_t header)
{
    return (enum raw_type)(header >> 24 & 0x7f);
}
static inline uint32_t raw_argument_of(uint64_t header)
{
    return header >> 32 & 0xffffff;
}
static inline uint32_t raw_count_of(uint64_t header)
{
    return header & 0xffff;
}
static inline uint64_t raw_pair(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

/* A word of RAW_POINTERS: a pointer of 47 bits below its own place, in words from the base. And back. */
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

/* RAW_VM: 4 bytes, then the count of instructions and raw_state(). */
enum { RAW_STATE_HEADER_BYTES = 4, RAW_STATE_BYTES = RAW_STATE_HEADER_BYTES + 2 * 8 };
static inline uint32_t raw_state_header(void)
{
    return (uint32_t)raw_header(RAW_VM, 0, 2);
}
/* Its second word: the address, of 47 bits and divisible by 4, above the state as LuaJIT has it, a trace's
 * number or below 0 one of the other states. And back. */
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
