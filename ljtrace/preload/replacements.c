/* replacements.c - replace functions of libc and C++ that Valgrind replaces differently, or not at all.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The number in a replacement's name is its class, that of Valgrind's own, and a priority above that (pub_tool_redir.h).
 */
#include "ljtrace/ljtrace.h"
#include "memtrace/memtrace.h"
#include <errno.h>
#include <stddef.h>

/* -- calloc -- */

/* Valgrind's calloc returns NULL if the product of its arguments overflows, but leaves errno alone, so that programs report
 * the error "Success". This one sets it to ENOMEM. It gets the block from the tool. */

#define CALLOC(soname)                                                                                       \
    void *_vgr10071ZU_##soname##_calloc(size_t count, size_t size);                                          \
    void *_vgr10071ZU_##soname##_calloc(size_t count, size_t size)                                           \
    {                                                                                                        \
        size_t total;                                                                                        \
        void *p = NULL;                                                                                      \
        if (!__builtin_mul_overflow(count, size, &total))                                                    \
            p = (void *)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_NEW, total, 0, MT_HOW_CALLOC, 0,  \
                                                        0);                                                  \
        if (!p)                                                                                              \
            errno = ENOMEM;                                                                                  \
        return p;                                                                                            \
    }

/* In libc, and in all other objects (VgSoSynsomalloc is Valgrind's synonym for them, which users can
 * change). */
CALLOC(libcZdsoZa)
CALLOC(VgSoSynsomalloc)

/* -- pvalloc -- */

/* libc's own pvalloc would allocate from libc's heap, which nothing else uses under Valgrind, and free()
 * would report such a block as an error, and Valgrind's only ends the program. This replacement calls memalign, which
 * Valgrind does replace. */

enum { PAGE = 4096 };

void *memalign(size_t align, size_t size);

/* void *pvalloc(size_t size): a whole number of pages, at least one, as with libc. */
void *_vgr10191ZU_libcZdsoZa_pvalloc(size_t size);
void *_vgr10191ZU_libcZdsoZa_pvalloc(size_t size)
{
    size_t pages = (size + PAGE - 1) / PAGE * PAGE;
    if (pages < size) {
        errno = ENOMEM;
        return NULL;
    }
    return memalign(PAGE, pages ? pages : PAGE);
}

/* -- operator new -- */

/* Valgrind's replacements of the throwing forms cannot throw. They end the program, even if it would have
 * caught std::bad_alloc or if its new handler would have freed memory. Therefore these forms are wrapped here.
 *
 * The block comes from the tool, as with Valgrind's replacements. If the tool has none, the wrapper calls the
 * program's own operator new. That calls malloc, which fails as well, then the new handler, and finally
 * throws through the frame of the wrapper. If the handler has made room, the block comes from malloc, and the
 * tool is informed that it was made by new. The forms that return NULL are left to Valgrind. */

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

/* void *operator new(size_t), new[], and both with std::align_val_t. 10031: class 1003, priority 1. */
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
