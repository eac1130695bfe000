/* driver.h - what an allocator must offer to be replayed: one table of operations.
 *
 * A driver is a shared object that exports one symbol, `steve_driver`, of type struct steve_driver.
 * steve-replay opens it in a fresh process of its own (RTLD_NOW | RTLD_LOCAL), checks `version` and
 * `size`, and calls the table from one thread, or (STEVE_THREADS) from several. A stranger's driver needs
 * this header and nothing else; skeleton.c is a whole one to start from, docs/writing-a-driver.md tells the
 * steps.
 *
 * Words: a *ref* is what malloc returns and free takes. For most allocators it is the address of the
 * block. For one that moves blocks (STEVE_MOVES) it is a handle, and lock gives the address.
 *
 * The rules that hold for every function:
 *   - init is called once and first; destroy once and last; nothing else before or after them.
 *   - sizes are in bytes and >= 1; a ref is live from malloc or realloc until free; free, lock, unlock,
 *     where and usable are only called with live refs; a block may be freed while locked.
 *   - the address of a block is a multiple of STEVE_ALIGNMENT, and live blocks do not overlap.
 *   - lock and unlock come in pairs for one ref and are not nested; between them the block must not move.
 *   - `id` is a number below 2^32 of the block's own as long as it lives; numbers are used again. (While a
 *     block is resized with a driver that has no realloc, its old and its new memory have the same id.)
 *   - functions report failure by their result; they do not print, exit or raise signals.
 *   - the process may fork between any two calls and the child calls on; the parent must not notice.
 *   - pointers marked "optional" may be NULL: the feature is then missing, not faked.
 *
 * The table does not time anything (steve-replay does, the same way for all) and knows nothing of ops
 * files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SDK_DRIVER_H
#define DRIVERS_SDK_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEVE_DRIVER_VERSION 2
#define STEVE_DRIVER_SYMBOL "steve_driver"

/* The address of every block is a multiple of this. It is what LuaJIT's own allocator gives; malloc of the C
 * library gives 16. --check reports blocks that are not aligned so. */
#define STEVE_ALIGNMENT 8

/* How the allocator is kept inside the given heap. */
enum steve_confinement {
    STEVE_IN_HEAP,      /* works in the memory given to init and asks the system for none */
    STEVE_BY_SYMBOLS,   /* calls mmap, munmap, mremap, madvise, sbrk as dynamic symbols; steve-replay
                           exports these and answers them from the heap */
    STEVE_BY_SYSCALLS,  /* makes system calls of its own; a seccomp filter hands them to steve-replay,
                           which answers from the heap (about 1 microsecond more for each call) */
    STEVE_NOT_CONFINED, /* takes memory elsewhere too; results are marked so */
    STEVE_CONFINEMENTS
};

enum steve_flags {
    STEVE_MOVES = 1,     /* refs are handles: address only from lock and where */
    STEVE_NO_MEMORY = 2, /* blocks are not memory of their own (null): never touch or compare them */
    STEVE_THREADS = 8,   /* malloc, free, realloc and usable may be called by several threads at once; without
                            this only one call is made at a time, be it by any thread */
    STEVE_RESERVES = 4   /* with STEVE_BY_SYMBOLS: reserves more addresses than the heap has by one mapping
                            without access, and maps parts of it anew to use them; only these parts count */
};

/* What an allocator that knows itself can tell. */
struct steve_walk {
    size_t free;    /* bytes that a later malloc could still be given, in blocks of any size */
    size_t chunks;  /* number of separate free pieces they lie in */
    size_t largest; /* largest block that it believes malloc can still give; 0 = not known. Only a hint. */
};

struct steve_driver {
    uint32_t version; /* STEVE_DRIVER_VERSION */
    uint32_t size;    /* sizeof(struct steve_driver) */

    const char *name;        /* letters, digits, - and _: it becomes part of file names */
    const char *description; /* one line for --list */
    uint32_t confinement;    /* enum steve_confinement */
    uint32_t flags;          /* enum steve_flags, or-ed */
    size_t least_heap;       /* heap in bytes in which it starts for certain; 0 = any */

    /* optional: the version of the package behind the driver */
    const char *(*package)(void);
    /* optional: why the driver cannot work here (static text), or NULL when it can. Before init. */
    const char *(*unavailable)(void);

    /* Start in `size` bytes of zeroed memory at `base` (64 MiB aligned). False: cannot. */
    bool (*init)(void *base, size_t size);
    /* optional: release what init took. The heap itself belongs to steve-replay. */
    void (*destroy)(void);

    /* A new block of at least `size` bytes, or NULL when there is no room. NULL leaves all as it was. */
    void *(*malloc)(size_t size, uint32_t id);
    void (*free)(void *ref, uint32_t id);
    /* optional: resize, content kept up to the smaller size; NULL: no room, old block still live. The block
     * is not locked. Without it a resize is malloc, copy and free. */
    void *(*realloc)(void *ref, size_t size, uint32_t id);
    /* optional: bytes the block really has, >= the size asked for */
    size_t (*usable)(void *ref);

    /* lock: the block's address, fixed until unlock. Optional (both) when blocks never move. */
    void *(*lock)(void *ref);
    void (*unlock)(void *ref);
    /* STEVE_MOVES only: the address of an unlocked block right now */
    void *(*where)(void *ref);

    /* optional: malloc of `wanted` bytes failed, make room. True: worth trying once more. */
    bool (*compact)(size_t wanted);
    /* optional: end of the highest part of the heap in use. STEVE_IN_HEAP should have it. */
    void *(*highest)(void);
    /* optional: fill in *out exactly; false: cannot tell now */
    bool (*walk)(struct steve_walk *out);
    /* optional: bytes just before the block that the allocator keeps for it, its header. For films, which else show
     * them as free or never used. */
    size_t (*header)(void *ref);
};

extern const struct steve_driver steve_driver;

#ifdef __cplusplus
}
#endif
#endif
