/* alloc_functions.h - what each function of alloc_functions.def does, and how it is found by its name.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Both recorders use it: the tool to observe functions (ljtrace/valgrind/heaps/observe.c), the native library to patch them
 * (ljtrace/native/inside/alloc_patch.c). It needs no C library.
 */
#ifndef LJTRACE_PROTOCOL_ALLOC_FUNCTIONS_H
#define LJTRACE_PROTOCOL_ALLOC_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memtrace/memtrace.h"

enum alloc_action {
    ALLOC_NOTHING,
    ALLOC_WITHIN,         /* internal to the allocator: what it frees was never given out */
    ALLOC_MAKE,           /* (size, ...) */
    ALLOC_MAKE_PAGES,     /* the same; the size is rounded up to whole pages */
    ALLOC_MAKE_SECOND,    /* (alignment, size) */
    ALLOC_MAKE_COUNT,     /* (count, size, ...) */
    ALLOC_MAKE_AT,        /* (&block, alignment, size); returns 0 on success */
    ALLOC_RESIZE,         /* (block, size, ...) */
    ALLOC_RESIZE_OR_FREE, /* the same; frees the block on failure */
    ALLOC_RESIZE_COUNT,   /* (block, count, size) */
    ALLOC_RESIZE_FOURTH,  /* (block, old size, alignment, size) */
    ALLOC_RESIZE_HERE,    /* (block, size, ...); returns the block's new size */
    ALLOC_FREE            /* (block, ...) */
};

/* A function of the list. how: enum mt_how; of a function that frees, MT_HOWS if blocks of all kinds may be freed by it. */
struct alloc_function {
    const char *name;
    uint8_t action; /* enum alloc_action */
    uint8_t how;
    enum { ALLOC_OF_ALLOCATORS, ALLOC_STANDARD, ALLOC_NAMED } kind;
    bool is_complete; /* all functions by which its allocator makes blocks are in the list */
};

/* The two fields after the name, by SHAPE. */
#define DOES_SIZE ALLOC_MAKE, MT_HOW_MALLOC
#define DOES_SIZE_ZERO ALLOC_MAKE, MT_HOW_CALLOC
#define DOES_SIZE_ALIGN ALLOC_MAKE, MT_HOW_MEMALIGN
#define DOES_SIZE_ALIGN_ZERO ALLOC_MAKE, MT_HOW_CALLOC
#define DOES_ALIGN_SIZE ALLOC_MAKE_SECOND, MT_HOW_MEMALIGN
#define DOES_PAGES ALLOC_MAKE, MT_HOW_MEMALIGN
#define DOES_WHOLE_PAGES ALLOC_MAKE_PAGES, MT_HOW_MEMALIGN
#define DOES_POSIX ALLOC_MAKE_AT, MT_HOW_MEMALIGN
#define DOES_COUNT ALLOC_MAKE_COUNT, MT_HOW_MALLOC
#define DOES_COUNT_ZERO ALLOC_MAKE_COUNT, MT_HOW_CALLOC
#define DOES_COUNT_ALIGN_ZERO ALLOC_MAKE_COUNT, MT_HOW_CALLOC
#define DOES_NEW ALLOC_MAKE, MT_HOW_CXX_NEW
#define DOES_NEW_ALIGNED ALLOC_MAKE, MT_HOW_CXX_NEW
#define DOES_NEW_ARRAY ALLOC_MAKE, MT_HOW_CXX_NEW_ARRAY
#define DOES_NEW_ARRAY_ALIGNED ALLOC_MAKE, MT_HOW_CXX_NEW_ARRAY
#define DOES_MALLOCX ALLOC_MAKE, MT_HOW_MALLOC
#define DOES_RESIZE ALLOC_RESIZE, MT_HOW_REALLOC
#define DOES_RESIZE_ZERO ALLOC_RESIZE, MT_HOW_REALLOC
#define DOES_RESIZE_ALIGN ALLOC_RESIZE, MT_HOW_REALLOC
#define DOES_RALLOCX ALLOC_RESIZE, MT_HOW_REALLOC
#define DOES_RESIZE_OR_FREE ALLOC_RESIZE_OR_FREE, MT_HOW_REALLOC
#define DOES_RESIZE_COUNT ALLOC_RESIZE_COUNT, MT_HOW_REALLOC
#define DOES_RESIZE_COUNT_ZERO ALLOC_RESIZE_COUNT, MT_HOW_REALLOC
#define DOES_XALLOCX ALLOC_RESIZE_HERE, MT_HOW_REALLOC
#define DOES_FREE ALLOC_FREE, MT_HOWS
#define DOES_FREE_2 ALLOC_FREE, MT_HOWS
#define DOES_FREE_3 ALLOC_FREE, MT_HOWS
#define DOES_FREE_MALLOC ALLOC_FREE, MT_HOW_MALLOC
#define DOES_DELETE ALLOC_FREE, MT_HOW_CXX_NEW
#define DOES_DELETE_ARRAY ALLOC_FREE, MT_HOW_CXX_NEW_ARRAY
#define DOES_USABLE ALLOC_NOTHING, 0
#define DOES_USABLE_2 ALLOC_NOTHING, 0
#define DOES_NALLOCX ALLOC_NOTHING, 0
#define DOES_RUST_NEW ALLOC_MAKE, MT_HOW_MALLOC
#define DOES_RUST_NEW_ZERO ALLOC_MAKE, MT_HOW_CALLOC
#define DOES_RUST_RESIZE ALLOC_RESIZE_FOURTH, MT_HOW_REALLOC
#define DOES_RUST_FREE ALLOC_FREE, MT_HOWS
#define DOES_WITHIN ALLOC_WITHIN, 0

/* Of each family. What else an object with functions of libc has is not known. */
#define IS_COMPLETE_libc false
#define IS_COMPLETE_jemalloc true
#define IS_COMPLETE_tcmalloc true
#define IS_COMPLETE_mimalloc false
#define IS_COMPLETE_tbb true

#define FUNCTION(class, name, SHAPE, family) {#name, DOES_##SHAPE, ALLOC_OF_ALLOCATORS, IS_COMPLETE_##family},
#define STANDARD(name, SHAPE) {#name, DOES_##SHAPE, ALLOC_STANDARD, false},
#define NAMED(name, SHAPE) {#name, DOES_##SHAPE, ALLOC_NAMED, false},
static const struct alloc_function alloc_functions[] = {
#include "ljtrace/protocol/alloc_functions.def"
};
enum { ALLOC_FUNCTIONS = sizeof alloc_functions / sizeof *alloc_functions };

static inline bool alloc_same_text(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* The text after `beginning`, with which this one begins; NULL = it does not. */
static inline const char *alloc_text_after(const char *text, const char *beginning)
{
    while (*beginning && *text == *beginning)
        text++, beginning++;
    return *beginning ? NULL : text;
}

/* The function of this name; NULL = none. */
static inline const struct alloc_function *alloc_by_name(const char *name)
{
    for (size_t i = 0; i < ALLOC_FUNCTIONS; i++)
        if (alloc_same_text(alloc_functions[i].name, name))
            return &alloc_functions[i];
    return NULL;
}

/* The plain name of a function. Older Rust compilers give allocation functions plain names, __rust_alloc; newer ones
 * mangle them as functions of a crate __rustc: _RNvCs2pZ_7___rustc12___rust_alloc. */
static inline const char *alloc_plain_name(const char *name)
{
    const char *at = alloc_text_after(name, "_RNv"), *rest = NULL;
    for (; at && *at && !rest; at++)
        rest = alloc_text_after(at, "7___rustc");
    if (!rest)
        return name;
    while (*rest >= '0' && *rest <= '9')
        rest++;
    return *rest == '_' ? rest + 1 : name;
}

/* The function of a plain name with this prefix; NULL = none. If the whole name is a known one, as __rust_realloc, it says
 * more than the part after the prefix. */
static inline const struct alloc_function *alloc_by_prefix(const char *name, const char *prefix)
{
    const char *rest = alloc_text_after(name, prefix);
    const struct alloc_function *whole = rest ? alloc_by_name(name) : NULL;
    return whole || !rest ? whole : alloc_by_name(rest);
}

/* What a call is about. */
struct alloc_call {
    uint64_t
        block; /* that is freed or resized; of ALLOC_MAKE_AT where the pointer to the new one is stored; 0 = none */
    uint64_t size; /* of the new block */
};

/* A size that is beyond all bounds: the call will fail. */
static inline uint64_t alloc_product(uint64_t a, uint64_t b)
{
    uint64_t bytes;
    return __builtin_mul_overflow(a, b, &bytes) ? UINT64_MAX : bytes;
}

static inline uint64_t alloc_whole_pages(uint64_t size)
{
    const uint64_t page = 4096;
    return size ? (size + page - 1) / page * page : page;
}

/* From the first four arguments. */
static inline struct alloc_call alloc_call_of(const struct alloc_function *f, uint64_t a, uint64_t b,
                                              uint64_t c, uint64_t d)
{
    switch (f->action) {
    case ALLOC_MAKE:
        return (struct alloc_call){0, a};
    case ALLOC_MAKE_PAGES:
        return (struct alloc_call){0, alloc_whole_pages(a)};
    case ALLOC_MAKE_SECOND:
        return (struct alloc_call){0, b};
    case ALLOC_MAKE_COUNT:
        return (struct alloc_call){0, alloc_product(a, b)};
    case ALLOC_MAKE_AT:
        return (struct alloc_call){a, c};
    case ALLOC_RESIZE_COUNT:
        return (struct alloc_call){a, alloc_product(b, c)};
    case ALLOC_RESIZE_FOURTH:
        return (struct alloc_call){a, d};
    default:
        return (struct alloc_call){a, b};
    }
}

/* May the call free its block and make another one? */
static inline bool alloc_may_move(const struct alloc_function *f)
{
    return f->action == ALLOC_RESIZE || f->action == ALLOC_RESIZE_OR_FREE ||
           f->action == ALLOC_RESIZE_COUNT || f->action == ALLOC_RESIZE_FOURTH;
}

/* Such a call has returned no block: has it freed the old one? */
static inline bool alloc_has_freed(const struct alloc_function *f, const struct alloc_call *call)
{
    return call->size == 0 || f->action == ALLOC_RESIZE_OR_FREE;
}

#endif
