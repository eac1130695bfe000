/* heap.c - replaces the allocation functions of libc and the operators of C++ by ones that call them and record what they did.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The replaced functions are those that the dynamic loader finds next, libc's or another allocator's. dlsym may allocate
 * before they are known; it gets memory that is never freed.
 *
 * The operators of C++ call malloc. The first call of malloc inside an operator is the block of the operator, so it is
 * recorded as made by `new`, and no other. The C++ libraries round its size up: 0 bytes to 1, and where `new` was given an
 * alignment, to a multiple of that. What is recorded is the size that the program asked for. An operator that asks malloc
 * for any other size is not theirs, and has added memory of its own.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/heap.h"
#include "ljtrace/native/inside/alloc_patch.h"
#include "ljtrace/native/inside/calls.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/native/inside/lua_stack.h"
#include "ljtrace/native/inside/resizes.h"
#include "ljtrace/native/inside/stack_sampler.h"
#include "ljtrace/protocol/kernel.h"
#include "memtrace/memtrace.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>

enum { EARLY_BYTES = 1 << 16, EARLY_ALIGN = 16 };

/* What an operator of C++ that is running makes or frees next. */
NATIVE_THREAD_LOCAL struct {
    uint8_t how;        /* 0 = none is running */
    size_t size, align; /* of `new`; align: 1 if it was given none */
} s_operator;

#define RECORD_NEW(how_, addr_, size_)                                                                       \
    if (block_sample_chooses(size_) && native_is_on()) {                                                     \
        const struct native_registers here = NATIVE_HERE;                                                    \
        native_record(                                                                                       \
            &(struct native_event){NATIVE_NEW, .how = how_, .addr = (uint64_t)(addr_), .size = size_},       \
            &here);                                                                                          \
    }
#define RECORD_FREE(how_, addr_)                                                                             \
    if (native_is_on()) {                                                                                    \
        const struct native_registers here = NATIVE_HERE;                                                    \
        native_record(&(struct native_event){NATIVE_FREE, .how = how_, .addr = (uint64_t)(addr_)}, &here);   \
    }

/* -- the replaced functions -- */

static struct real {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void *(*reallocarray)(void *, size_t, size_t);
} s_real;

/* They are not libc's: the allocator may hold its locks at a fork, when the recorder locks its ring. */
static bool s_is_foreign;
static bool s_finding; /* this thread is looking for them: dlsym may allocate */
static char *s_early;  /* mapped when it is used first */
static size_t s_early_used;

static bool is_early(const void *p)
{
    return s_early && (const char *)p >= s_early && (const char *)p < s_early + EARLY_BYTES;
}

static void *early_memory(size_t size)
{
    const size_t bytes = (size + EARLY_ALIGN - 1) & ~(size_t)(EARLY_ALIGN - 1);
    if (!s_early)
        s_early = native_memory(EARLY_BYTES);
    if (!s_early || size > EARLY_BYTES || bytes > EARLY_BYTES - s_early_used)
        return NULL;
    s_early_used += bytes;
    return s_early + s_early_used - bytes;
}

static bool is_foreign(const void *function)
{
    struct dl_find_object found, libc;
    return _dl_find_object((void *)(uintptr_t)function, &found) != 0 ||
           _dl_find_object((void *)&gnu_get_libc_version, &libc) != 0 ||
           found.dlfo_link_map != libc.dlfo_link_map;
}

static void find_real(void)
{
    static const struct {
        const char *name;
        size_t at;
    } all[] = {{"malloc", offsetof(struct real, malloc)},
               {"calloc", offsetof(struct real, calloc)},
               {"realloc", offsetof(struct real, realloc)},
               {"memalign", offsetof(struct real, memalign)},
               {"posix_memalign", offsetof(struct real, posix_memalign)},
               {"aligned_alloc", offsetof(struct real, aligned_alloc)},
               {"valloc", offsetof(struct real, valloc)},
               {"pvalloc", offsetof(struct real, pvalloc)},
               {"reallocarray", offsetof(struct real, reallocarray)},
               {"free", offsetof(struct real, free)}};
    s_finding = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *function = native_next(all[i].name);
        memcpy((char *)&s_real + all[i].at, &function, sizeof function);
    }
    s_finding = false;
    s_is_foreign = is_foreign((const void *)s_real.realloc);
}

/* Are the real functions known? */
static inline bool is_ready(void)
{
    if (s_real.free)
        return true;
    if (!s_finding)
        find_real();
    return s_real.free != NULL;
}

void native_heap_begin(void)
{
    is_ready();
}

void native_heap_patched(void)
{
    void **real = (void **)&s_real;
    for (size_t i = 0; i < sizeof s_real / sizeof *real; i++)
        real[i] = alloc_patch_original(real[i]);
}

uint32_t native_operator_how(uint32_t how)
{
    const uint32_t chosen = s_operator.how ? s_operator.how : how;
    s_operator.how = 0;
    return chosen;
}

/* The size that the program asked for, when malloc or a relative is asked for this one. */
static inline size_t asked_size(size_t size)
{
    const size_t asked = s_operator.size, align = s_operator.align;
    if (__builtin_expect(!s_operator.how || asked == size, 1))
        return size;
    const size_t least = asked ? asked : 1;
    return size >= least && size - least < align ? asked : size;
}

/* The countdown passes over nothing, and no block is lacking, before the real functions are known. */
NATIVE_PUBLIC void *malloc(size_t size)
{
    if (NATIVE_IS_INNER)
        return s_real.malloc(size);
    const size_t asked = asked_size(size);
    if (block_sample_passes(asked)) {
        s_operator.how = 0;
        void *p = NATIVE_OUTERMOST(s_real.malloc(size));
        return p || !native_gives_way(size) ? p : s_real.malloc(size);
    }
    if (!is_ready())
        return early_memory(size);
    const uint32_t how = native_operator_how(MT_HOW_MALLOC);
    void *p = NATIVE_OUTERMOST(s_real.malloc(size));
    if (p)
        RECORD_NEW(how, p, asked);
    return p || !native_gives_way(size) ? p : s_real.malloc(size);
}

NATIVE_PUBLIC void *calloc(size_t count, size_t size)
{
    if (!is_ready())
        return early_memory(count * size);
    size_t total;
    if (NATIVE_IS_INNER)
        return s_real.calloc(count, size);
    if (__builtin_mul_overflow(count, size, &total) || block_sample_passes(total))
        return NATIVE_OUTERMOST(s_real.calloc(count, size));
    void *p = NATIVE_OUTERMOST(s_real.calloc(count, size));
    if (p)
        RECORD_NEW(MT_HOW_CALLOC, p, total);
    return p || !native_gives_way(total) ? p : s_real.calloc(count, size);
}

NATIVE_PUBLIC void free(void *p)
{
    if (!p || is_early(p) || !is_ready())
        return;
    if (NATIVE_IS_INNER) {
        s_real.free(p);
        return;
    }
    const uint32_t how = native_operator_how(MT_HOW_MALLOC);
    if (!block_sample_lacks((uint64_t)p))
        RECORD_FREE(how, p);
    (void)NATIVE_OUTERMOST((s_real.free(p), 0));
}

/* What realloc(p, size) has done: it has returned q. */
static struct native_event resized(void *p, size_t size, void *q, bool chosen)
{
    if (!q)
        return (struct native_event){NATIVE_FREE, .how = MT_HOW_MALLOC, .addr = (uint64_t)p};
    return (struct native_event){NATIVE_RESIZE,       .how = MT_HOW_MALLOC, .old = (uint64_t)p,
                                 .addr = (uint64_t)q, .size = size,         .chosen = chosen};
}

/* The same for an allocator other than libc's. */
static void *resize_foreign(void *p, size_t size, bool chosen, const struct native_registers *here)
{
    struct native_event e = {NATIVE_RESIZE, .how = MT_HOW_MALLOC, .old = (uint64_t)p, .size = size,
                             .chosen = chosen};
    e.resize = native_resize_begin(&e, here);
    void *q = NATIVE_OUTERMOST(s_real.realloc(p, size));
    e.addr = (uint64_t)(q ? q : p);
    if (!q)
        e.kind = size ? NATIVE_NOTHING : NATIVE_FREE;
    native_record(&e, here);
    return q;
}

/* The ring is locked until the block has its new place: another thread may get the old one at once. */
static void *resize(void *p, size_t size, bool chosen, const struct native_registers *here)
{
    bool deferred;
    struct native_taken *t = native_event_begin(here, 0, &deferred);
    const bool locked = t && !deferred && native_event_lock();
    if (locked)
        stack_sampler_lend();
    void *q = NATIVE_OUTERMOST(s_real.realloc(p, size));
    const int error = errno;
    if (locked) {
        lua_stack_begin(&t->from, 0);
        stack_sampler_return();
    }
    const bool failed = !q && size;
    if (t && (locked || deferred)) {
        t->event = failed ? (struct native_event){NATIVE_NOTHING} : resized(p, size, q, chosen);
        if (locked)
            native_event_put(t);
    }
    if (t && !deferred)
        native_event_end();
    errno = error;
    return failed && native_gives_way(size) ? s_real.realloc(p, size) : q;
}

NATIVE_PUBLIC void *realloc(void *p, size_t size)
{
    if (is_early(p)) {
        const size_t rest = (size_t)(s_early + EARLY_BYTES - (char *)p);
        void *q = malloc(size);
        if (q)
            memcpy(q, p, size < rest ? size : rest);
        return q;
    }
    if (!is_ready())
        return p ? NULL : early_memory(size);
    if (NATIVE_IS_INNER)
        return s_real.realloc(p, size);
    if (p && native_is_on()) {
        const bool chosen = block_sample_chooses(size);
        if (!chosen && block_sample_lacks((uint64_t)p))
            return NATIVE_OUTERMOST(s_real.realloc(p, size));
        const struct native_registers here = NATIVE_HERE;
        return s_is_foreign ? resize_foreign(p, size, chosen, &here) : resize(p, size, chosen, &here);
    }
    void *q = NATIVE_OUTERMOST(s_real.realloc(p, size));
    if (q && !p)
        RECORD_NEW(MT_HOW_MALLOC, q, size);
    return q || !size || !native_gives_way(size) ? q : s_real.realloc(p, size);
}

NATIVE_PUBLIC void *reallocarray(void *p, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    if (NATIVE_IS_INNER)
        return s_real.realloc(p, total);
    return realloc(p, total);
}

NATIVE_PUBLIC void *memalign(size_t align, size_t size)
{
    if (NATIVE_IS_INNER)
        return s_real.memalign(align, size);
    void *p = is_ready() && s_real.memalign ? NATIVE_OUTERMOST(s_real.memalign(align, size)) : NULL;
    const size_t asked = asked_size(size);
    const uint32_t how = native_operator_how(MT_HOW_MEMALIGN);
    if (p)
        RECORD_NEW(how, p, asked);
    return p || !native_gives_way(size) ? p : s_real.memalign(align, size);
}

NATIVE_PUBLIC void *aligned_alloc(size_t align, size_t size)
{
    if (NATIVE_IS_INNER)
        return s_real.aligned_alloc(align, size);
    void *p = is_ready() && s_real.aligned_alloc ? NATIVE_OUTERMOST(s_real.aligned_alloc(align, size)) : NULL;
    const size_t asked = asked_size(size);
    const uint32_t how = native_operator_how(MT_HOW_MEMALIGN);
    if (p)
        RECORD_NEW(how, p, asked);
    return p || !native_gives_way(size) ? p : s_real.aligned_alloc(align, size);
}

NATIVE_PUBLIC int posix_memalign(void **to, size_t align, size_t size)
{
    if (NATIVE_IS_INNER)
        return s_real.posix_memalign(to, align, size);
    const int result = is_ready() && s_real.posix_memalign
                           ? NATIVE_OUTERMOST(s_real.posix_memalign(to, align, size))
                           : ENOMEM;
    const size_t asked = asked_size(size); /* libstdc++'s aligned operator new calls it since GCC 13 */
    const uint32_t how = native_operator_how(MT_HOW_MEMALIGN);
    if (result == 0)
        RECORD_NEW(how, *to, asked);
    return result != ENOMEM || !native_gives_way(size) ? result : s_real.posix_memalign(to, align, size);
}

NATIVE_PUBLIC void *valloc(size_t size)
{
    if (NATIVE_IS_INNER)
        return s_real.valloc(size);
    void *p = is_ready() && s_real.valloc ? NATIVE_OUTERMOST(s_real.valloc(size)) : NULL;
    if (p)
        RECORD_NEW(MT_HOW_MEMALIGN, p, size);
    return p || !native_gives_way(size) ? p : s_real.valloc(size);
}

NATIVE_PUBLIC void *pvalloc(size_t size)
{
    if (NATIVE_IS_INNER)
        return s_real.pvalloc(size);
    void *p = is_ready() && s_real.pvalloc ? NATIVE_OUTERMOST(s_real.pvalloc(size)) : NULL;
    const size_t pages = size ? (size + KERNEL_PAGE - 1) / KERNEL_PAGE * KERNEL_PAGE : KERNEL_PAGE;
    if (p)
        RECORD_NEW(MT_HOW_MEMALIGN, p, pages);
    return p || !native_gives_way(size) ? p : s_real.pvalloc(size);
}

/* -- the operators of C++ --
 *
 * Each operator calls the one that the program would call. A program in C may have C++'s library only while it has a
 * plugin open that needs it, so that dlsym does not find the operators, and they are looked up again when objects have
 * been opened or closed. The names are those of the Itanium C++ ABI. */

/* An operator begins: the next block that this thread allocates or frees is of this kind, enum mt_how. size, align: what
 * `new` was asked for; align is 1 if it was given none. Returns false if another operator has called this one; then only
 * the other one ends. */
static bool operator_begins(uint32_t how, size_t size, size_t align)
{
    const bool outermost = !s_operator.how;
    if (outermost) {
        s_operator.how = (uint8_t)how;
        s_operator.size = size;
        s_operator.align = align;
    }
    return outermost;
}

static void operator_ends(void)
{
    s_operator.how = 0;
}

/* An operator of the program, and the value of got_generation when it was found. */
struct real_operator {
    void *function;
    uint32_t generation;
};

/* Find the program's operator of that name. A program that calls one has it. */
static void *find_operator(struct real_operator *real, const char *name)
{
    const uint32_t generation = __atomic_load_n(&got_generation, __ATOMIC_ACQUIRE);
    void *function = got_function(name);
    if (!function)
        abort();
    __atomic_store_n(&real->function, function, __ATOMIC_RELAXED);
    __atomic_store_n(&real->generation, generation, __ATOMIC_RELEASE);
    return function;
}

static inline void *operator_of(struct real_operator *real, const char *name)
{
    const uint32_t generation = __atomic_load_n(&real->generation, __ATOMIC_ACQUIRE);
    if (__builtin_expect(generation == __atomic_load_n(&got_generation, __ATOMIC_RELAXED), 1))
        return __atomic_load_n(&real->function, __ATOMIC_RELAXED);
    return find_operator(real, name);
}

/* Define an operator with these parameters, of which NEW has one `size`, and another one is its alignment or it is 1.
 * If the real one throws, the exception passes through. new[] calls new, so the outermost operator decides. */
#define NEW(name, how, align_, parameters, arguments)                                                        \
    NATIVE_PUBLIC void *name parameters;                                                                     \
    void *name parameters                                                                                    \
    {                                                                                                        \
        static struct real_operator s_own;                                                                   \
        void *(*const real)parameters = (void *(*)parameters)operator_of(&s_own, #name);                     \
        const bool outermost = operator_begins(how, size, align_);                                           \
        void *p = real arguments;                                                                            \
        if (outermost)                                                                                       \
            operator_ends();                                                                                 \
        return p;                                                                                            \
    }
#define DELETE(name, how, parameters, arguments)                                                             \
    NATIVE_PUBLIC void name parameters;                                                                      \
    void name parameters                                                                                     \
    {                                                                                                        \
        static struct real_operator s_own;                                                                   \
        void(*const real) parameters = (void(*) parameters)operator_of(&s_own, #name);                       \
        const bool outermost = operator_begins(how, 0, 1);                                                   \
        real arguments;                                                                                      \
        if (outermost)                                                                                       \
            operator_ends();                                                                                 \
    }

/* n: std::nothrow_t, a: std::align_val_t */
#define ALL(new, delete, how)                                                                                \
    NEW(new##m, how, 1, (size_t size), (size))                                                               \
    NEW(new##mRKSt9nothrow_t, how, 1, (size_t size, const void *n), (size, n))                               \
    NEW(new##mSt11align_val_t, how, a, (size_t size, size_t a), (size, a))                                   \
    NEW(new##mSt11align_val_tRKSt9nothrow_t, how, a, (size_t size, size_t a, const void *n), (size, a, n))   \
    DELETE(delete##Pv, how, (void *p), (p))                                                                  \
    DELETE(delete##PvRKSt9nothrow_t, how, (void *p, const void *n), (p, n))                                  \
    DELETE(delete##Pvm, how, (void *p, size_t size), (p, size))                                              \
    DELETE(delete##PvSt11align_val_t, how, (void *p, size_t a), (p, a))                                      \
    DELETE(delete##PvSt11align_val_tRKSt9nothrow_t, how, (void *p, size_t a, const void *n), (p, a, n))      \
    DELETE(delete##PvmSt11align_val_t, how, (void *p, size_t size, size_t a), (p, size, a))

ALL(_Znw, _Zdl, MT_HOW_CXX_NEW)
ALL(_Zna, _Zda, MT_HOW_CXX_NEW_ARRAY)
