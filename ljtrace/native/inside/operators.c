/* operators.c - C++'s operators new and delete: the blocks that they get from malloc are theirs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each operator calls the one that the program would call. A program in C may have C++'s library only while it has a
 * plugin open that needs it, so that dlsym does not find the operators, and they are looked up again when objects have
 * been opened or closed. The names are those of the Itanium C++ ABI.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/heap.h"
#include "ljtrace/native/inside/native.h"
#include "memtrace/memtrace.h"

#include <stdlib.h>

/* An operator of the program, and the value of got_generation when it was found. */
struct real {
    void *function;
    uint32_t generation;
};

/* Find the program's operator of that name. A program that calls one has it. */
static void *find(struct real *real, const char *name)
{
    const uint32_t generation = __atomic_load_n(&got_generation, __ATOMIC_ACQUIRE);
    void *function = got_function(name);
    if (!function)
        abort();
    __atomic_store_n(&real->function, function, __ATOMIC_RELAXED);
    __atomic_store_n(&real->generation, generation, __ATOMIC_RELEASE);
    return function;
}

static inline void *real_of(struct real *real, const char *name)
{
    const uint32_t generation = __atomic_load_n(&real->generation, __ATOMIC_ACQUIRE);
    if (__builtin_expect(generation == __atomic_load_n(&got_generation, __ATOMIC_RELAXED), 1))
        return __atomic_load_n(&real->function, __ATOMIC_RELAXED);
    return find(real, name);
}

/* Define an operator with these parameters, of which NEW has one `size`, and another one is its alignment or it is 1. If the real one throws, the
 * exception passes through. new[] calls new, so the outermost operator decides. */
#define NEW(name, how, align_, parameters, arguments)                                                        \
    NATIVE_PUBLIC void *name parameters;                                                                     \
    void *name parameters                                                                                    \
    {                                                                                                        \
        static struct real s_real;                                                                           \
        void *(*const real)parameters = (void *(*)parameters)real_of(&s_real, #name);                        \
        const bool outermost = native_operator_begins(how, size, align_);                                    \
        void *p = real arguments;                                                                            \
        if (outermost)                                                                                       \
            native_operator_ends();                                                                          \
        return p;                                                                                            \
    }
#define DELETE(name, how, parameters, arguments)                                                             \
    NATIVE_PUBLIC void name parameters;                                                                      \
    void name parameters                                                                                     \
    {                                                                                                        \
        static struct real s_real;                                                                           \
        void(*const real) parameters = (void(*) parameters)real_of(&s_real, #name);                          \
        const bool outermost = native_operator_begins(how, 0, 1);                                            \
        real arguments;                                                                                      \
        if (outermost)                                                                                       \
            native_operator_ends();                                                                          \
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
