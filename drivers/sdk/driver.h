/* driver.h - the interface of an allocator that steve-replay can replay: one table of functions.
 *
 * A driver is a shared object that exports one symbol, `steve_driver`, of type struct steve_driver. steve-replay opens
 * it in a new process (RTLD_NOW | RTLD_LOCAL), checks `version` and `size`, and calls the functions from one thread, or
 * (STEVE_THREADS) from several. A driver needs only this header. skeleton.c is a complete driver to start from;
 * docs/writing-a-driver.md explains the steps.
 *
 * A *ref* is what malloc returns and free accepts. For most allocators it is the address of the block. For one that
 * moves blocks (STEVE_MOVES) it is a handle, and lock returns the address.
 *
 * These rules hold for all functions:
 *   - init is called once and first, destroy once and last.
 *   - Sizes are in bytes and >= 1. A ref is live from malloc or realloc until free. free, lock, unlock, where and
 *     usable are called with live refs only. A block may be freed while it is locked.
 *   - The address of a block is a multiple of STEVE_ALIGNMENT, or of less if `flags` say so, and live blocks do not
 *     overlap.
 *   - lock and unlock are called in pairs for a ref and are not nested. Between them the block must not move.
 *   - `id` is a number below 2^32 that no other live block has; numbers are reused. (While a block is resized with a
 *     driver that has no realloc, its old and its new memory have the same id.)
 *   - Functions report failure by their result. They do not print, exit or raise signals.
 *   - The process may fork between any two calls, and the child continues to call functions. This must not affect the
 *     parent.
 *   - Pointers marked "optional" may be NULL: the feature is then missing and is not emulated.
 *
 * Drivers do not measure time, because steve-replay does that in the same way for all. They do not depend on ops files.
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

/* The address of a block is a multiple of this, which is the alignment of max_align_t and what malloc of the C library
 * gives. STEVE_ALIGNS_TO_SIZE and STEVE_ALIGNS_TO_8 demand less. --check reports blocks with a smaller alignment. */
#define STEVE_ALIGNMENT 16

/* How the allocator is confined to the given heap. */
enum steve_confinement {
    STEVE_IN_HEAP,      /* works in the memory passed to init and requests none from the system */
    STEVE_BY_SYMBOLS,   /* calls mmap, munmap, mremap, madvise, sbrk as dynamic symbols; steve-replay
                           exports these and serves them from the heap */
    STEVE_BY_SYSCALLS,  /* makes system calls directly; a seccomp filter passes them to steve-replay,
                           which serves them from the heap (about 1 microsecond more for each call) */
    STEVE_NOT_CONFINED, /* allocates memory elsewhere, too; results are marked so */
    STEVE_CONFINEMENTS
};

enum steve_flags {
    STEVE_MOVES = 1,     /* refs are handles; only lock and where return addresses */
    STEVE_NO_MEMORY = 2, /* blocks have no memory of their own (null): never access or compare them */
    STEVE_THREADS = 8,   /* malloc, free, realloc and usable may be called by several threads at once; without
                            this, there is only one call at a time, by any thread */
    /* the address of a block of less than STEVE_ALIGNMENT bytes is a multiple of the greatest power of two that
       does not exceed its size, which is all that the C standard demands */
    STEVE_ALIGNS_TO_SIZE = 16,
    STEVE_ALIGNS_TO_8 = 32, /* addresses are multiples of 8 only */
    STEVE_RESERVES = 4 /* with STEVE_BY_SYMBOLS: reserves more addresses than the heap has by one inaccessible
                            mapping, and maps parts of it again to use them; only these parts count */
};

/* Statistics of an allocator about itself. */
struct steve_walk {
    size_t free;    /* bytes that malloc can still return, in blocks of any size */
    size_t chunks;  /* number of separate free pieces that these bytes are in */
    size_t largest; /* largest block that malloc can probably still return; 0 = not known. Only a hint. */
};

struct steve_driver {
    uint32_t version; /* STEVE_DRIVER_VERSION */
    uint32_t size;    /* sizeof(struct steve_driver) */

    const char *name;        /* letters, digits, - and _: it becomes part of file names */
    const char *description; /* one line for --list */
    uint32_t confinement;    /* enum steve_confinement */
    uint32_t flags;          /* enum steve_flags, or-ed */
    size_t least_heap;       /* heap in bytes in which it certainly starts; 0 = any */

    /* optional: the version of the driver's package */
    const char *(*package)(void);
    /* optional: why the driver cannot be used on this system (static text), or NULL if it can. Called before init. */
    const char *(*unavailable)(void);

    /* Start in `size` bytes of zeroed memory at `base` (64 MiB aligned). False if that is not possible. */
    bool (*init)(void *base, size_t size);
    /* optional: release what init has allocated. The heap itself belongs to steve-replay. */
    void (*destroy)(void);

    /* Allocate a block of at least `size` bytes. NULL if there is no room; nothing has changed then. */
    void *(*malloc)(size_t size, uint32_t id);
    void (*free)(void *ref, uint32_t id);
    /* optional: resize a block, keeping its content up to the smaller size. NULL if there is no room; the old
     * block is still live then. The block is not locked. Without this function, a resize is malloc, copy and free. */
    void *(*realloc)(void *ref, size_t size, uint32_t id);
    /* optional: usable bytes of the block, >= the requested size */
    size_t (*usable)(void *ref);

    /* lock: return the block's address, which is fixed until unlock. Both are optional if blocks never move. */
    void *(*lock)(void *ref);
    void (*unlock)(void *ref);
    /* STEVE_MOVES only: the current address of an unlocked block */
    void *(*where)(void *ref);

    /* optional: malloc of `wanted` bytes has failed, make room. True if it is worth trying once more. */
    bool (*compact)(size_t wanted);
    /* optional: end of the highest part of the heap in use. STEVE_IN_HEAP drivers should have it. */
    void *(*highest)(void);
    /* optional: fill in *out exactly; false if that is not possible now */
    bool (*walk)(struct steve_walk *out);
    /* optional: number of bytes before the block that are its header. For films, which otherwise show them as free
     * or never used. */
    size_t (*header)(void *ref);
};

extern const struct steve_driver steve_driver;

#ifdef __cplusplus
}
#endif
#endif
