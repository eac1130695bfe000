/* families.c - wrap the allocation functions of other allocators than libc's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ljtrace/protocol/alloc_functions.def lists the functions. A wrapper is active wherever a global function of
 * that name exists. It gets the block from the tool, as malloc does. It calls the wrapped function in two
 * cases: if the tool has no memory, and for blocks that are not the tool's. Those were made by a function
 * that is not in the list, or before the wrapper was active. So a program works as without the recorder even
 * if the list is incomplete.
 *
 * malloc is wrapped here only for musl, where it is a weak function of an object without a soname. Valgrind
 * replaces the rest of musl's family but not that.
 */
#include "ljtrace/ljtrace.h"
#include "memtrace/memtrace.h"
#include <errno.h>
#include <stddef.h>

typedef unsigned long word;

enum { PAGE = 4096, LEAST_ALIGN = 16 };

void *malloc(size_t size);

/* -- requests ----------------------------------------------------------------------------------- */

static inline word block_make(size_t size, size_t align, enum mt_how how)
{
    return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_NEW, size, align, how, 0, 0);
}

/* Resize a block. `zero`: the bytes it gains are zeroed. Returns 0 if there is no memory; the block is
 * unchanged then. */
static inline word block_resize(word p, size_t size, size_t align, int zero)
{
    word q = VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_RESIZE, p, size, align, zero, 0);
    if (!q)
        errno = ENOMEM;
    return q;
}

/* Does the address belong to the tool's allocator? Then the tool handles its free, be it right or wrong. */
static inline int owns(word p)
{
    return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_OWNS, p, 0, 0, 0, 0) != 0;
}

static inline void release(word p)
{
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_FREE, p, 0, 0, 0, 0);
}

static inline word bytes_of(word p)
{
    return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_BYTES, p, 0, 0, 0, 0);
}

/* -- shapes: a wrapper for each combination of arguments ------------------------------------------ */

/* The digit 1 is the priority: above that of Valgrind's replacements of the same class, which may be at the
 * same address. */
#define NAME(class, name) _vgw##class##1ZU_VgSoSynsomalloc_##name
#define WRAP1(class, name, a)                                                                                \
    word NAME(class, name)(word a);                                                                          \
    word NAME(class, name)(word a)
#define WRAP2(class, name, a, b)                                                                             \
    word NAME(class, name)(word a, word b);                                                                  \
    word NAME(class, name)(word a, word b)
#define WRAP3(class, name, a, b, c)                                                                          \
    word NAME(class, name)(word a, word b, word c);                                                          \
    word NAME(class, name)(word a, word b, word c)
#define WRAP4(class, name, a, b, c, d)                                                                       \
    word NAME(class, name)(word a, word b, word c, word d);                                                  \
    word NAME(class, name)(word a, word b, word c, word d)

/* Declares `fn`, the wrapped function, and `result`, its result. */
#define ORIGINAL                                                                                             \
    OrigFn fn;                                                                                               \
    word result;                                                                                             \
    VALGRIND_GET_ORIG_FN(fn)
#define CALL1(a)                                                                                             \
    {                                                                                                        \
        CALL_FN_W_W(result, fn, a);                                                                          \
        return result;                                                                                       \
    }
#define CALL2(a, b)                                                                                          \
    {                                                                                                        \
        CALL_FN_W_WW(result, fn, a, b);                                                                      \
        return result;                                                                                       \
    }
#define CALL3(a, b, c)                                                                                       \
    {                                                                                                        \
        CALL_FN_W_WWW(result, fn, a, b, c);                                                                  \
        return result;                                                                                       \
    }
#define CALL4(a, b, c, d)                                                                                    \
    {                                                                                                        \
        CALL_FN_W_WWWW(result, fn, a, b, c, d);                                                              \
        return result;                                                                                       \
    }

/* Functions that make a block. If the tool has no memory, they call the wrapped function, which fails in its
 * own way or finds some. */
#define MAKE1(class, name, align, how)                                                                       \
    WRAP1(class, name, size)                                                                                 \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        word p = block_make(size, align, how);                                                               \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL1(size)                                                                                          \
    }
#define SIZE(class, name) MAKE1(class, name, 0, MT_HOW_MALLOC)
#define SIZE_ZERO(class, name) MAKE1(class, name, 0, MT_HOW_CALLOC)
#define PAGES(class, name) MAKE1(class, name, PAGE, MT_HOW_MEMALIGN)
#define NEW(class, name) MAKE1(class, name, 0, MT_HOW_CXX_NEW)
#define NEW_ARRAY(class, name) MAKE1(class, name, 0, MT_HOW_CXX_NEW_ARRAY)

#define WHOLE_PAGES(class, name)                                                                             \
    WRAP1(class, name, size)                                                                                 \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        size_t pages = (size + PAGE - 1) / PAGE * PAGE;                                                      \
        word p = pages >= size ? block_make(pages ? pages : PAGE, PAGE, MT_HOW_MEMALIGN) : 0;                \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL1(size)                                                                                          \
    }

#define MAKE2(class, name, first, second, size, align, valid, how)                                           \
    WRAP2(class, name, first, second)                                                                        \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        word p = (valid) ? block_make(size, align, how) : 0;                                                 \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL2(first, second)                                                                                 \
    }
#define IS_ALIGN(align) ((align) != 0 && ((align) & ((align)-1)) == 0)
#define SIZE_ALIGN(class, name) MAKE2(class, name, size, align, size, align, IS_ALIGN(align), MT_HOW_MEMALIGN)
#define SIZE_ALIGN_ZERO(class, name)                                                                         \
    MAKE2(class, name, size, align, size, align, IS_ALIGN(align), MT_HOW_CALLOC)
#define ALIGN_SIZE(class, name) MAKE2(class, name, align, size, size, align, IS_ALIGN(align), MT_HOW_MEMALIGN)
#define NEW_ALIGNED(class, name) MAKE2(class, name, size, align, size, align, IS_ALIGN(align), MT_HOW_CXX_NEW)
#define NEW_ARRAY_ALIGNED(class, name)                                                                       \
    MAKE2(class, name, size, align, size, align, IS_ALIGN(align), MT_HOW_CXX_NEW_ARRAY)

#define MAKE_COUNT(class, name, how)                                                                         \
    WRAP2(class, name, count, size)                                                                          \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        size_t total;                                                                                        \
        word p = __builtin_mul_overflow(count, size, &total) ? 0 : block_make(total, 0, how);                \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL2(count, size)                                                                                   \
    }
#define COUNT(class, name) MAKE_COUNT(class, name, MT_HOW_MALLOC)
#define COUNT_ZERO(class, name) MAKE_COUNT(class, name, MT_HOW_CALLOC)

#define COUNT_ALIGN_ZERO(class, name)                                                                        \
    WRAP3(class, name, count, size, align)                                                                   \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        size_t total;                                                                                        \
        word p = 0;                                                                                          \
        if (!__builtin_mul_overflow(count, size, &total) && IS_ALIGN(align))                                 \
            p = block_make(total, align, MT_HOW_CALLOC);                                                     \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL3(count, size, align)                                                                            \
    }

#define POSIX(class, name)                                                                                   \
    WRAP3(class, name, to, align, size)                                                                      \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        word p =                                                                                             \
            IS_ALIGN(align) && align % sizeof(void *) == 0 ? block_make(size, align, MT_HOW_MEMALIGN) : 0;   \
        if (p) {                                                                                             \
            *(word *)to = p;                                                                                 \
            return 0;                                                                                        \
        }                                                                                                    \
        CALL3(to, align, size)                                                                               \
    }

/* Functions that resize a block. */
#define RESIZE_AS(class, name, zero, or_free)                                                                \
    WRAP2(class, name, p, size)                                                                              \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        word q = p ? 0 : block_make(size, 0, (zero) ? MT_HOW_CALLOC : MT_HOW_MALLOC);                        \
        if (q)                                                                                               \
            return q;                                                                                        \
        if (!p || !owns(p))                                                                                  \
            CALL2(p, size)                                                                                   \
        q = block_resize(p, size, 0, zero);                                                                  \
        if (!q && (or_free))                                                                                 \
            release(p);                                                                                      \
        return q;                                                                                            \
    }
#define RESIZE(class, name) RESIZE_AS(class, name, 0, 0)
#define RESIZE_ZERO(class, name) RESIZE_AS(class, name, 1, 0)
#define RESIZE_OR_FREE(class, name) RESIZE_AS(class, name, 0, 1)

#define RESIZE_COUNT_AS(class, name, zero)                                                                   \
    WRAP3(class, name, p, count, size)                                                                       \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        size_t total;                                                                                        \
        if (__builtin_mul_overflow(count, size, &total))                                                     \
            CALL3(p, count, size)                                                                            \
        word q = p ? 0 : block_make(total, 0, (zero) ? MT_HOW_CALLOC : MT_HOW_MALLOC);                       \
        if (q)                                                                                               \
            return q;                                                                                        \
        if (!p || !owns(p))                                                                                  \
            CALL3(p, count, size)                                                                            \
        return block_resize(p, total, 0, zero);                                                              \
    }
#define RESIZE_COUNT(class, name) RESIZE_COUNT_AS(class, name, 0)
#define RESIZE_COUNT_ZERO(class, name) RESIZE_COUNT_AS(class, name, 1)

#define RESIZE_ALIGN(class, name)                                                                            \
    WRAP3(class, name, p, size, align)                                                                       \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        word q = !p && IS_ALIGN(align) ? block_make(size, align, MT_HOW_MEMALIGN) : 0;                       \
        if (q)                                                                                               \
            return q;                                                                                        \
        if (!p || !owns(p) || !IS_ALIGN(align))                                                              \
            CALL3(p, size, align)                                                                            \
        return block_resize(p, size, align, 0);                                                              \
    }

/* Functions that free a block. Some of them may share their code with functions that free blocks of other
 * allocators, so freeing a block of another kind is not reported as an error here. */
#define FREE_AS(p, CALL)                                                                                     \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        if (p && !owns(p))                                                                                   \
            CALL if (p) release(p);                                                                          \
        return 0;                                                                                            \
    }
#define FREE(class, name) WRAP1(class, name, p) FREE_AS(p, CALL1(p))
#define FREE_2(class, name) WRAP2(class, name, p, a) FREE_AS(p, CALL2(p, a))
#define FREE_3(class, name) WRAP3(class, name, p, a, b) FREE_AS(p, CALL3(p, a, b))

#define USABLE(class, name)                                                                                  \
    WRAP1(class, name, p)                                                                                    \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        if (p && owns(p))                                                                                    \
            return bytes_of(p);                                                                              \
        CALL1(p)                                                                                             \
    }
#define USABLE_2(class, name)                                                                                \
    WRAP2(class, name, p, a)                                                                                 \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        if (p && owns(p))                                                                                    \
            return bytes_of(p);                                                                              \
        CALL2(p, a)                                                                                          \
    }

/* jemalloc's flags: bits 0-5 are the logarithm of the alignment, bit 6 requests zeroing. The others choose
 * among caches and arenas, which do not exist here. */
static inline size_t flagged_align(word flags)
{
    return (size_t)1 << (flags & 0x3f);
}
static inline int flagged_zero(word flags)
{
    return (flags & 0x40) != 0;
}

#define MALLOCX(class, name)                                                                                 \
    WRAP2(class, name, size, flags)                                                                          \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        word p =                                                                                             \
            block_make(size, flagged_align(flags), flagged_zero(flags) ? MT_HOW_CALLOC : MT_HOW_MALLOC);     \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL2(size, flags)                                                                                   \
    }
#define RALLOCX(class, name)                                                                                 \
    WRAP3(class, name, p, size, flags)                                                                       \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        if (p && owns(p))                                                                                    \
            return block_resize(p, size, flagged_align(flags), flagged_zero(flags));                         \
        CALL3(p, size, flags)                                                                                \
    }
/* Resizes in place as far as possible, which here is never. Returns the size of the block. */
#define XALLOCX(class, name)                                                                                 \
    WRAP4(class, name, p, size, extra, flags)                                                                \
    {                                                                                                        \
        ORIGINAL;                                                                                            \
        if (p && owns(p))                                                                                    \
            return bytes_of(p);                                                                              \
        CALL4(p, size, extra, flags)                                                                         \
    }
/* Returns the size that a block of `size` bytes would have. */
#define NALLOCX(class, name)                                                                                 \
    WRAP2(class, name, size, flags)                                                                          \
    {                                                                                                        \
        return size;                                                                                         \
    }

#define FUNCTION(class, name, SHAPE, family) SHAPE(class, name)
#include "ljtrace/protocol/alloc_functions.def"

/* -- musl --------------------------------------------------------------------------------------- */

/* This wraps any function named malloc in an object without a soname. Only the one that the program's calls
 * are bound to gets its block from the tool. */
void *_vgw10010ZU_NONE_malloc(size_t size);
void *_vgw10010ZU_NONE_malloc(size_t size)
{
    ORIGINAL;
    word p = fn.nraddr == (word)&malloc ? block_make(size, 0, MT_HOW_MALLOC) : 0;
    if (p)
        return (void *)p;
    CALL_FN_W_W(result, fn, size);
    return (void *)result;
}
