/* pvalloc.c - inside the program: pvalloc, the one allocation function that Valgrind has no replacement for.
 * (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libc's own would take memory from libc's own heap, which nobody else uses here, and the program's free
 * would then be an error. It becomes a memalign, which is replaced. 1019 is the class of Valgrind's function
 * that ends the program instead; the priority is above that one's (pub_tool_redir.h).
 */
#include "ljtrace/ljtrace.h"
#include <errno.h>
#include <stddef.h>

enum { PAGE = 4096 };

void *memalign(size_t align, size_t size);

/* void *pvalloc(size_t size): whole pages; at least one, as with libc. */
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
