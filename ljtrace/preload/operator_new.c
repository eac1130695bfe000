/* operator_new.c - operator new that throws when there is no memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind's replacements of the throwing forms cannot throw. They end the program, even if it would have
 * caught std::bad_alloc or if its new handler would have freed memory. Therefore these forms are wrapped
 * here, with the class of Valgrind's replacements and a higher priority (pub_tool_redir.h).
 *
 * The block comes from the tool, as with Valgrind's replacements. If the tool has none, the wrapper calls the
 * program's own operator new. That calls malloc, which fails as well, then the new handler, and finally
 * throws through the frame of the wrapper. If the handler has made room, the block comes from malloc, and the
 * tool is informed that it was made by new. The forms that return NULL are left to Valgrind.
 */
#include "ljtrace/ljtrace.h"
#include "memtrace/memtrace.h"
#include <stddef.h>

typedef unsigned long word;

static inline void *ask_tool(size_t size, size_t align, enum mt_how how)
{
    return (void *)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_NEW, size, align, how, 0, 0);
}

/* The program's own operator new has found memory after all. It got the block from malloc or, for an array,
 * from operator new. Inform the tool that the block is one of new, which delete has to free. */
static void *made_by(word p, enum mt_how how)
{
    enum mt_how freed = how == MT_HOW_CXX_NEW ? MT_HOW_MALLOC : MT_HOW_CXX_NEW;
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_MADE_BY, p, freed, how, 0, 0);
    return (void *)p;
}

/* void *operator new(size_t), new[], and both with std::align_val_t. 10031: class 1003 as Valgrind's, with
 * priority 1; Valgrind's have priority 0. */
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

/* In libstdc++, libc++, libc, and all other objects (VgSoSynsomalloc is Valgrind's synonym for them, which
 * users can change). */
OBJECT(libstdcZpZpZa)
OBJECT(libcZpZpZa)
OBJECT(libcZdsoZa)
OBJECT(VgSoSynsomalloc)
