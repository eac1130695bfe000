/* pvalloc.c - pvalloc, the one allocation function of libc that Valgrind does not replace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libc's own pvalloc would allocate from libc's heap, which nothing else uses under Valgrind, and free()
 * would report such a block as an error. This replacement calls memalign, which Valgrind does replace.
 *
 * 1019 is the class of Valgrind's own pvalloc, which only ends the program; the digit after it is the
 * priority, which has to be above that of Valgrind's (pub_tool_redir.h).
 */
#include "ljtrace/ljtrace.h"
#include <errno.h>
#include <stddef.h>

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
