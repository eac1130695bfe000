/* extremes.c - what the C heap returns for impossible and for unusual sizes and alignments.
 *
 * Prints only what does not depend on the machine, so that it can be compared with a run without recorder.
 * Alignments of 1 MiB and more are used, moved and freed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tell(const char *what, size_t size, const void *p, int error)
{
    printf("%s %zx: %s, errno %s\n", what, size, p ? "a block" : "NULL",
           error ? strerror(error) : "unchanged");
}

#define TELL(what, size, call)                                                                               \
    do {                                                                                                     \
        errno = 0;                                                                                           \
        void *p = call;                                                                                      \
        tell(what, size, p, errno);                                                                          \
        free(p);                                                                                             \
    } while (0)

static void ask_for(size_t size)
{
    void *volatile kept = strdup("kept");
    void *unset = kept;
    TELL("malloc", size, malloc(size));
    TELL("calloc", size, calloc(size, 1));
    TELL("calloc of 16", size, calloc(size, 16));
    TELL("memalign", size, memalign(64, size));
    TELL("valloc", size, valloc(size));
    TELL("pvalloc", size, pvalloc(size));
    TELL("realloc of none", size, realloc(NULL, size));
    TELL("alignment", size, memalign((size_t)1 << 62, size));
    errno = 0;
    void *moved = realloc(kept, size);
    tell("realloc", size, moved, errno);
    int status = posix_memalign(&unset, 64, size);
    printf("posix_memalign %d, pointer %s, block %s\n", status, unset == kept ? "unchanged" : "set",
           moved ? "?" : (char *)kept);
    free(kept);
}

static void align_to(size_t align)
{
    char *p = aligned_alloc(align, 3 * 4096), *q = memalign(align, 100);
    printf("aligned to %zx: %d %d, usable %d\n", align, (int)((uintptr_t)p % align),
           (int)((uintptr_t)q % align), malloc_usable_size(p) >= 3 * 4096);
    memset(p, 'p', 3 * 4096);
    memset(q, 'q', 100);
    q = realloc(q, 4000);
    p = realloc(p, 5000);
    printf("moved: %c %c\n", p[4999], q[99]);
    free(p);
    free(q);
}

int main(void)
{
    static const size_t sizes[] = {(size_t)1 << 60, PTRDIFF_MAX - 64, PTRDIFF_MAX, SIZE_MAX - 4096, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ask_for(((volatile const size_t *)sizes)[i]);
    for (size_t align = 16; align <= (size_t)1 << 26; align *= 4)
        align_to(align);
    return 0;
}
