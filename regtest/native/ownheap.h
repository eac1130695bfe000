/* ownheap.h - a small allocator for programs that bring one, under any names.
 *
 * OWN(name) makes the names of its functions; SHARED is what they are declared with. It takes memory from mappings and
 * keeps freed blocks of each power of two in a list.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { OWN_HEAD = 16, OWN_CHUNK = 1 << 20, OWN_CLASSES = 40 };

static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static char *own_at, *own_end;
static void *own_free[OWN_CLASSES];

/* Called while the lock is held. */
#ifndef OWN_INSIDE
#define OWN_INSIDE()
#endif
/* Called by realloc when it has freed the old block. */
#ifndef OWN_FREED
#define OWN_FREED()
#endif

static inline __attribute__((always_inline)) void *own_take(size_t size)
{
    unsigned bits = 5;
    while (((size_t)1 << bits) < size + OWN_HEAD)
        bits++;
    const size_t bytes = (size_t)1 << bits;
    pthread_mutex_lock(&own_lock);
    OWN_INSIDE();
    char *p = own_free[bits];
    if (p)
        memcpy(&own_free[bits], p, sizeof(void *));
    else {
        if ((size_t)(own_end - own_at) < bytes) {
            const size_t chunk = bytes > OWN_CHUNK ? bytes : OWN_CHUNK;
            own_at = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            own_end = own_at + chunk;
        }
        p = own_at + OWN_HEAD;
        own_at += bytes;
    }
    ((size_t *)p)[-1] = bits;
    ((size_t *)p)[-2] = size;
    pthread_mutex_unlock(&own_lock);
    return p;
}

SHARED void *OWN(malloc)(size_t size)
{
    return own_take(size);
}

SHARED void OWN(free)(void *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&own_lock);
    const size_t bits = ((size_t *)p)[-1];
    memcpy(p, &own_free[bits], sizeof(void *));
    own_free[bits] = p;
    pthread_mutex_unlock(&own_lock);
}

SHARED void *OWN(calloc)(size_t count, size_t size)
{
    return memset(OWN(malloc)(count * size), 0, count * size);
}

SHARED void *OWN(realloc)(void *p, size_t size)
{
    void *q = OWN(malloc)(size);
    if (p) {
        const size_t had = ((size_t *)p)[-2];
        memcpy(q, p, had < size ? had : size);
        OWN(free)(p);
        OWN_FREED();
    }
    return q;
}
