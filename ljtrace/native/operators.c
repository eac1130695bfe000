/* operators.c - C++'s operators new and delete: the blocks that they get from malloc are theirs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each operator calls the one that the dynamic loader finds next. The names are those of the Itanium C++ ABI.
 */
#define _GNU_SOURCE
#include "ljtrace/native/heap.h"
#include "ljtrace/native/native.h"
#include "memtrace/memtrace.h"

#include <stdlib.h>

/* Find the next function of that name. A program that calls an operator has one. */
static void *next(const char *name)
{
    void *function = native_next(name);
    if (!function)
        abort();
    return function;
}

/* Define operator NAME with these parameters: FORM(result, name, how, parameters, arguments). If the real one throws, the
 * exception passes through. new[] calls new, so the outermost operator decides. */
#define NEW(name, how, parameters, arguments)                                                                \
    NATIVE_PUBLIC void *name parameters;                                                                     \
    void *name parameters                                                                                    \
    {                                                                                                        \
        static void *(*real)parameters;                                                                      \
        if (!real)                                                                                           \
            real = (void *(*)parameters)next(#name);                                                         \
        const bool outermost = native_operator_begins(how);                                                  \
        void *p = real arguments;                                                                            \
        if (outermost)                                                                                       \
            native_operator_ends();                                                                          \
        return p;                                                                                            \
    }
#define DELETE(name, how, parameters, arguments)                                                             \
    NATIVE_PUBLIC void name parameters;                                                                      \
    void name parameters                                                                                     \
    {                                                                                                        \
        static void(*real) parameters;                                                                       \
        if (!real)                                                                                           \
            real = (void(*) parameters)next(#name);                                                          \
        const bool outermost = native_operator_begins(how);                                                  \
        real arguments;                                                                                      \
        if (outermost)                                                                                       \
            native_operator_ends();                                                                          \
    }

/* n: std::nothrow_t, a: std::align_val_t */
#define ALL(new, delete, how)                                                                                \
    NEW(new##m, how, (size_t size), (size))                                                                  \
    NEW(new##mRKSt9nothrow_t, how, (size_t size, const void *n), (size, n))                                  \
    NEW(new##mSt11align_val_t, how, (size_t size, size_t a), (size, a))                                      \
    NEW(new##mSt11align_val_tRKSt9nothrow_t, how, (size_t size, size_t a, const void *n), (size, a, n))      \
    DELETE(delete##Pv, how, (void *p), (p))                                                                  \
    DELETE(delete##PvRKSt9nothrow_t, how, (void *p, const void *n), (p, n))                                  \
    DELETE(delete##Pvm, how, (void *p, size_t size), (p, size))                                              \
    DELETE(delete##PvSt11align_val_t, how, (void *p, size_t a), (p, a))                                      \
    DELETE(delete##PvSt11align_val_tRKSt9nothrow_t, how, (void *p, size_t a, const void *n), (p, a, n))      \
    DELETE(delete##PvmSt11align_val_t, how, (void *p, size_t size, size_t a), (p, size, a))

ALL(_Znw, _Zdl, MT_HOW_CXX_NEW)
ALL(_Zna, _Zda, MT_HOW_CXX_NEW_ARRAY)
