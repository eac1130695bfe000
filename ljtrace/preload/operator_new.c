/* operator_new.c - inside the program: operator new that throws when there is no memory. (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind's replacements of the throwing forms cannot throw: they end the program, which would have caught
 * std::bad_alloc or called its new handler. So these forms are wrapped, with a higher priority in the class
 * of Valgrind's replacements (pub_tool_redir.h). The block comes from the tool as with Valgrind's. If there
 * is none, the program's own function does what it does: it asks malloc, which fails as well, calls the new
 * handler, and throws through the frame here. What a handler has made room for is told to the tool as made by
 * new. The forms that return NULL stay Valgrind's.
 */
#include "ljtrace/ljtrace.h"
#include "memtrace/memtrace.h"
#include <stddef.h>

typedef unsigned long word;

static inline void *ask_tool(size_t size, size_t align, enum mt_how how)
{
    return (void *)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_NEW, size, align, how, 0, 0);
}

/* The program's operator new has found memory after all: by malloc, and for an array by operator new. */
static void *made_by(word p, enum mt_how how)
{
    enum mt_how freed = how == MT_HOW_CXX_NEW ? MT_HOW_MALLOC : MT_HOW_CXX_NEW;
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_MADE_BY, p, freed, how, 0, 0);
    return (void *)p;
}

/* void *operator new(size_t) and new[]; with std::align_val_t. 10031: Valgrind's class 1003, above its
 * priority 0.
 */
#define PLAIN(soname, function, how)                                                                         \
    void *_vgw10031ZU_##soname##_##function(size_t size);                                                    \
    void *_vgw10031ZU_##soname##_##function(size_t size)                                                     \
    {                                                                                                        \
        OrigFn fn;                                                                                           \
        word own;                                                                                            \
        VALGRIND_GET_ORIG_FN(fn);                                                                            \
        void *p = ask_tool(size, 0, how);                                                                    \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL_FN_W_W(own, fn, size);                                                                          \
        return made_by(own, how);                                                                            \
    }
#define ALIGNED(soname, function, how)                                                                       \
    void *_vgw10031ZU_##soname##_##function(size_t size, size_t align);                                      \
    void *_vgw10031ZU_##soname##_##function(size_t size, size_t align)                                       \
    {                                                                                                        \
        OrigFn fn;                                                                                           \
        word own;                                                                                            \
        VALGRIND_GET_ORIG_FN(fn);                                                                            \
        void *p = ask_tool(size, align, how);                                                                \
        if (p)                                                                                               \
            return p;                                                                                        \
        CALL_FN_W_WW(own, fn, size, align);                                                                  \
        return made_by(own, how);                                                                            \
    }
#define OBJECT(soname)                                                                                       \
    PLAIN(soname, _Znwm, MT_HOW_CXX_NEW)                                                                     \
    PLAIN(soname, _Znam, MT_HOW_CXX_NEW_ARRAY)                                                               \
    ALIGNED(soname, _ZnwmSt11align_val_t, MT_HOW_CXX_NEW)                                                    \
    ALIGNED(soname, _ZnamSt11align_val_t, MT_HOW_CXX_NEW_ARRAY)

/* libstdc++*, libc++*, libc.so*, and wherever else they are (Valgrind's synonym, which users can change) */
OBJECT(libstdcZpZpZa)
OBJECT(libcZpZpZa)
OBJECT(libcZdsoZa)
OBJECT(VgSoSynsomalloc)
