/* faulty.c - an allocator with one fault, which $STEVE_FAULT names, as an example for authors of allocators.
 *
 *     cc -O2 -fPIC -shared -I/usr/local/include/steve -o faulty.so faulty.c
 *     STEVE_FAULT=overlap steve-replay --allocator ./faulty.so --check some-ops
 *
 * shows how steve-replay reports it. Without a fault it is a correct allocator of size classes that are powers of two.
 * It requests memory by mmap, in arenas. A block is preceded by a header with its class. Each fault occurs in every
 * 16th operation that can have it, and s_faults lists them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#if __has_include("drivers/sdk/driver.h")
#include "drivers/sdk/driver.h"
#else
#include "driver.h"
#endif

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LEAST = 4, CLASSES = 40, ARENA = 1 << 16, EVERY = 16 };

enum fault {
    NO_FAULT,
    OVERLAP,         /* a block begins in the middle of the block before it */
    MISALIGNED,      /* an address is a multiple of 8 only */
    SHORT,           /* a block is smaller than requested */
    LIES,            /* usable returns twice the size */
    SCRIBBLE,        /* free writes into another live block */
    LOST_CONTENT,    /* realloc copies only half of the content */
    UNHANDLED,       /* that mmap failed is not noticed */
    FREED_BY_FAILED, /* a realloc that fails has freed the block */
    FREED_TWICE,     /* free puts a block into the list of free blocks twice */
    FREED_FOREIGN,   /* free puts another live block into the list, too */
    FAULTS
};
static const char *const s_faults[FAULTS] = {
    "none",         "overlap",   "misaligned",      "short",       "lies",         "scribble",
    "lost-content", "unhandled", "freed-by-failed", "freed-twice", "freed-foreign"};

struct header {
    size_t class; /* the block has 1 << class bytes */
    size_t again; /* the same, and the `class` of a header that MISALIGNED reads 8 bytes later */
};
struct free_block {
    struct free_block *next;
};

static enum fault s_fault;
static unsigned s_occasions;
static struct free_block *s_free[CLASSES];
static char *s_top, *s_end;
static char *s_last; /* the block that was allocated last, if it is still live */

/* Is the fault `f` to happen now? */
static bool now(enum fault f)
{
    return f == s_fault && ++s_occasions % EVERY == 0;
}

static bool faulty_init(void *base, size_t size)
{
    const char *name = getenv("STEVE_FAULT");
    for (int i = 0; name && i < FAULTS; i++)
        if (strcmp(name, s_faults[i]) == 0)
            s_fault = (enum fault)i;
    return !name || strcmp(name, s_faults[s_fault]) == 0;
}

static size_t class_of(size_t size)
{
    size_t class = LEAST;
    while (((size_t)1 << class) < size)
        class ++;
    return class;
}

static struct header *header_of(void *ref)
{
    return (struct header *)ref - 1;
}

/* Bytes that the block has from `ref` on. */
static size_t bytes_of(void *ref)
{
    return ((size_t)1 << header_of(ref)->class) - (uintptr_t)ref % 16;
}

static bool request_arena(size_t bytes)
{
    size_t length = bytes > ARENA ? bytes : ARENA;
    char *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED && s_fault != UNHANDLED)
        return false;
    s_top = p;
    s_end = p + length;
    return true;
}

static char *begin_block(char *at, size_t class)
{
    struct header *h = (struct header *)at;
    *h = (struct header){class, class};
    return (char *)(h + 1);
}

/* Cut a block from the arena. */
static char *carve(size_t class)
{
    size_t bytes = sizeof(struct header) + ((size_t)1 << class);
    if (bytes > (size_t)(s_end - s_top) && !request_arena(bytes))
        return NULL;
    s_top += bytes;
    return begin_block(s_top - bytes, class);
}

static char *take(size_t class)
{
    struct free_block *b = s_free[class];
    if (!b)
        return carve(class);
    s_free[class] = b->next;
    return (char *)b;
}

static void *faulty_malloc(size_t size, uint32_t id)
{
    size_t class = class_of(size);
    if (s_last && header_of(s_last)->class > LEAST && now(OVERLAP))
        return begin_block(s_last + bytes_of(s_last) / 2 - sizeof(struct header), class);
    if (class > LEAST && now(SHORT))
        class --;
    char *p = class < CLASSES ? take(class) : NULL;
    s_last = p;
    return p && size + 8 <= (size_t)1 << class && now(MISALIGNED) ? p + 8 : p;
}

static void put(void *ref)
{
    struct free_block *b = (struct free_block *)((char *)ref - (uintptr_t)ref % 16);
    size_t class = header_of(b)->class;
    b->next = s_free[class];
    s_free[class] = b;
}

static void faulty_free(void *ref, uint32_t id)
{
    if (ref == s_last)
        s_last = NULL;
    put(ref);
    if (s_last && now(SCRIBBLE))
        *s_last ^= 1;
    if (s_last && now(FREED_FOREIGN))
        put(s_last);
    if (now(FREED_TWICE))
        put(ref);
}

static size_t faulty_usable(void *ref)
{
    return s_fault == LIES ? 2 * bytes_of(ref) : bytes_of(ref);
}

static void *faulty_realloc(void *ref, size_t size, uint32_t id)
{
    size_t had = bytes_of(ref), keep = had < size ? had : size;
    if (size <= had)
        return ref;
    char copy[sizeof(struct free_block)];
    memcpy(copy, ref, sizeof copy);
    if (s_fault == FREED_BY_FAILED)
        faulty_free(ref, id);
    void *p = faulty_malloc(size, id);
    if (!p)
        return NULL;
    memcpy(p, ref, now(LOST_CONTENT) ? keep / 2 : keep);
    if (s_fault == FREED_BY_FAILED)
        memcpy(p, copy, sizeof copy);
    else
        faulty_free(ref, id);
    return p;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "faulty",
    .description = "an allocator with the fault that $STEVE_FAULT names",
    .confinement = STEVE_BY_SYMBOLS,
    .init = faulty_init,
    .malloc = faulty_malloc,
    .free = faulty_free,
    .realloc = faulty_realloc,
    .usable = faulty_usable,
};
