/* calloc.c - calloc that sets errno to ENOMEM when the product of its arguments overflows.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind's calloc returns NULL in this case but leaves errno alone, so that programs report the error
 * "Success". This replacement has the class of Valgrind's (1007, pub_tool_redir.h) and a higher priority. It
 * gets the block from the tool.
 */
#include "ljtrace/ljtrace.h"
#include "memtrace/memtrace.h"
#include <errno.h>
#include <stddef.h>

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
