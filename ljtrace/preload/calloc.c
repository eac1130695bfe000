/* calloc.c - inside the program: calloc that says ENOMEM when the product of its arguments is too large.
 * (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind's returns NULL then and leaves errno alone, and the program tells its user of a "Success". This
 * one has a higher priority in the class of Valgrind's (1007, pub_tool_redir.h) and asks the tool for the
 * block.
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

/* In libc.so*, and wherever else it is (Valgrind's synonym, which users can change). */
CALLOC(libcZdsoZa)
CALLOC(VgSoSynsomalloc)
