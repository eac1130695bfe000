/* ring_memory.c - makes the shared memory of a ring; see ring_memory.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Shared memory counts as a file for the limit on the size of files (RLIMIT_FSIZE), which would end this process by SIGXFSZ.
 * So the limit is raised for this moment, as far as that is permitted, and a smaller ring is made if it is too low. It is
 * only made in processes of the recorder with one thread, which do nothing else then.
 */
#define _GNU_SOURCE
#include "ljtrace/protocol/ring_memory.h"
#include "ljtrace/protocol/ring.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Raise the limit on the size of files. Returns the new one. */
static rlim_t raise_limit(const struct rlimit *usual)
{
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}, most = {usual->rlim_max, usual->rlim_max};
    if (setrlimit(RLIMIT_FSIZE, &all) == 0)
        return RLIM_INFINITY;
    return setrlimit(RLIMIT_FSIZE, &most) == 0 ? usual->rlim_max : usual->rlim_cur;
}

/* Give the memory the size of the best shape that is possible. Returns the shape; NULL = none is. */
static const struct ring_shape *choose_shape(int memfd)
{
    struct rlimit usual = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &usual);
    const rlim_t most = usual.rlim_cur < RING_BYTES ? raise_limit(&usual) : usual.rlim_cur;
    const struct ring_shape *chosen = NULL;
    int error = EFBIG;
    for (const struct ring_shape *s = ring_shapes; s < ring_shapes + RING_SHAPES && !chosen; s++)
        if (ring_shape_bytes(s) <= most)
            chosen = ftruncate(memfd, (off_t)ring_shape_bytes(s)) == 0 ? s : (error = errno, NULL);
    setrlimit(RLIMIT_FSIZE, &usual);
    errno = error;
    return chosen;
}

struct ring_header *ring_memory_new(int *memfd)
{
    *memfd = memfd_create(RING_FILE_NAME, MFD_CLOEXEC);
    const struct ring_shape *shape = *memfd < 0 ? NULL : choose_shape(*memfd);
    struct ring_header *ring =
        !shape ? MAP_FAILED : mmap(NULL, RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *memfd, 0);
    if (ring == MAP_FAILED) {
        const int error = errno;
        if (*memfd >= 0)
            close(*memfd);
        errno = error;
        return NULL;
    }
    ring->magic = RING_MAGIC;
    ring->version = RING_VERSION;
    ring->slab_count = shape->slab_count;
    ring->slab_bytes = shape->slab_bytes;
    return ring;
}
