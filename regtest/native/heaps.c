/* heaps.c - a program with allocators of its own, mappings, and functions to be watched.
 *
 *     heaps MODE     (the table at the end names them; the cases say what each must give)
 *
 * Blocks have conspicuous sizes, and are touched by single volatile accesses, so that the cases can name
 * every event. It prints addresses where they need them, `name number` a line.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace.h"
#include <malloc.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUPER = 80001, PIECE = 1001, OTHER = 1003, PAGE = 4096 };

static void put(volatile char *p)
{
    *p = 1;
}

static volatile char s_seen;

static void get(volatile char *p)
{
    s_seen = *p;
}

/* -- Valgrind's requests for single blocks --------------------------------------------------------- */

static int malloclike(void)
{
    char *super = malloc(SUPER);
    put(super + 7);
    VALGRIND_MALLOCLIKE_BLOCK(super + 1000, PIECE, 0, 0);
    put(super + 1000 + 5); /* the piece's */
    put(super + 9);        /* in no piece */
    VALGRIND_RESIZEINPLACE_BLOCK(super + 1000, PIECE, 2 * PIECE, 0);
    put(super + 1000 + PIECE + 1);
    VALGRIND_FREELIKE_BLOCK(super + 1000, 0);
    get(super + 1000 + 3);                    /* freed memory */
    VALGRIND_FREELIKE_BLOCK(super + 1000, 0); /* twice */
    VALGRIND_MALLOCLIKE_BLOCK(super, OTHER, 0, 0);
    free(super); /* not a bad free; the second piece goes with it */
    return 0;
}

/* Pieces that are freed after the block around them was, and its memory used again. */
static int outlived(void)
{
    char *super = malloc(SUPER);
    VALGRIND_MALLOCLIKE_BLOCK(super + 8, OTHER, 0, 0);
    VALGRIND_MALLOCLIKE_BLOCK(super + 2 * PIECE, PIECE, 0, 0);
    free(super);
    VALGRIND_RESIZEINPLACE_BLOCK(super + 8, OTHER, PIECE, 0);
    char *again = malloc(SUPER);
    VALGRIND_FREELIKE_BLOCK(super + 8, 0);
    VALGRIND_FREELIKE_BLOCK(super + 2 * PIECE, 0);
    free(again);
    VALGRIND_FREELIKE_BLOCK(super + 8, 0); /* twice */
    VALGRIND_FREELIKE_BLOCK(super + 9, 0); /* never a piece */
    return 0;
}

static volatile char s_arena[2 * SUPER];

/* Compiled to constant addresses. */
static __attribute__((noinline)) void put_static(void)
{
    s_arena[SUPER + 6] = 1;
}

static int in_static_memory(void)
{
    put_static(); /* no block yet */
    VALGRIND_MALLOCLIKE_BLOCK(s_arena + SUPER, PIECE, 0, 0);
    put_static();
    s_arena[SUPER - 3] = 1;
    return 0;
}

/* -- freed memory that the system reuses for something else ------------------------------ */

static int mapped_again(void)
{
    volatile char *gone = malloc(1000 * SUPER); /* a mapping of its own, in any malloc */
    char *page = (char *)(((uintptr_t)gone + 5 * PAGE) & -(uintptr_t)PAGE);
    put(gone);
    free((void *)gone);
    if (mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
        return 1;
    put(page + 3);
    return 0;
}

/* -- memory pools ------------------------------------------------------------------------------------ */

static int mempool(void)
{
    static int anchor, other;
    char *super = malloc(SUPER);
    VALGRIND_CREATE_MEMPOOL(&anchor, 0, 0);
    if (RUNNING_ON_VALGRIND && (!VALGRIND_MEMPOOL_EXISTS(&anchor) || VALGRIND_MEMPOOL_EXISTS(&other)))
        return 3;
    for (int i = 0; i < 5; i++)
        VALGRIND_MEMPOOL_ALLOC(&anchor, super + 2000 * i, PIECE);
    put(super + 2000 + 1);
    VALGRIND_MEMPOOL_FREE(&anchor, super + 2000);
    VALGRIND_MEMPOOL_FREE(&anchor, super + 2000);                        /* a double free */
    VALGRIND_MEMPOOL_CHANGE(&anchor, super + 4000, super + 3000, OTHER); /* a resize */
    VALGRIND_MEMPOOL_TRIM(&anchor, super + 3000, 3500); /* keeps piece 2 and the first 500 bytes of 3 */
    VALGRIND_MOVE_MEMPOOL(&anchor, &other);
    put(super + 6000 + 2);
    VALGRIND_MEMPOOL_FREE(&other, super + 6000);
    VALGRIND_DESTROY_MEMPOOL(&other); /* piece 2 goes */
    free(super);
    return 0;
}

static int metapool(void)
{
    static int anchor;
    char *super = mmap(NULL, SUPER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    VALGRIND_CREATE_MEMPOOL_EXT(&anchor, 0, 0, VALGRIND_MEMPOOL_METAPOOL | VALGRIND_MEMPOOL_AUTO_FREE);
    VALGRIND_MEMPOOL_ALLOC(&anchor, super, 40000);
    VALGRIND_MALLOCLIKE_BLOCK(super + 100, PIECE, 0, 0);
    VALGRIND_MALLOCLIKE_BLOCK(super + 20000, OTHER, 0, 0);
    put(super + 100);
    put(super + 20000);
    VALGRIND_MEMPOOL_FREE(&anchor, super); /* with both pieces */
    VALGRIND_DESTROY_MEMPOOL(&anchor);
    munmap(super, SUPER);
    return 0;
}

static int named(void)
{
    static int tiles, sprites;
    char *super = malloc(SUPER);
    LJTRACE_POOL_CREATE(&tiles, "tiles");
    LJTRACE_POOL_CREATE(&sprites, "sprites");
    LJTRACE_ALLOCATOR_BEGIN();
    LJTRACE_POOL_ALLOC(&tiles, super + 100, PIECE);
    LJTRACE_POOL_ALLOC(&sprites, super + 40000, OTHER);
    put(super + 100); /* the allocator's own */
    LJTRACE_ALLOCATOR_END();
    put(super + 100 + 4);
    LJTRACE_POOL_RESIZE(&sprites, super + 40000, super + 50000, 2 * OTHER);
    put(super + 50000 + OTHER);
    LJTRACE_POOL_FREE(&tiles, super + 100);
    LJTRACE_POOL_FREE(&tiles, super + 50000); /* another pool's */
    LJTRACE_POOL_DESTROY(&tiles);
    LJTRACE_POOL_DESTROY(&sprites);
    free(super);
    return 0;
}

static int unknown_pool(void)
{
    static int anchor;
    char *super = malloc(SUPER);
    VALGRIND_MEMPOOL_ALLOC(&anchor, super, PIECE);
    put(super);
    free(super);
    return 0;
}

/* -- mappings ------------------------------------------------------------------------------------------ */

static char *map(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int mappings(void)
{
    char *p = map(20 * PAGE);
    put(p + 3);
    munmap(p + 5 * PAGE, 5 * PAGE); /* in the middle: two parts */
    put(p + 12 * PAGE);
    munmap(p, PAGE);             /* the beginning of the first */
    munmap(p + 19 * PAGE, PAGE); /* the end of the second */
    munmap(p, 20 * PAGE);        /* all that is left */
    char *q = map(7 * PAGE + 11);
    q = mremap(q, 7 * PAGE + 11, 70 * PAGE, MREMAP_MAYMOVE);
    put(q + 60 * PAGE);
    mmap(q, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    munmap(q, 70 * PAGE);
    return 0;
}

static int brk_block(void)
{
    char *p = sbrk(9 * PAGE);
    put(p + 1);
    sbrk(2 * PAGE);
    put(p + 10 * PAGE);
    sbrk(-11 * PAGE);
    return 0;
}

/* Debuggers' tools tend to forget this one. */
static int page_alloc(void)
{
    char *p = pvalloc(PAGE + 1);
    put(p + 2 * PAGE - 1);
    int odd = (uintptr_t)p % PAGE != 0;
    free(p);
    return odd;
}

/* -- functions to be watched ----------------------------------------------------------------------------- */

static char *s_block;
static jmp_buf s_back;

__attribute__((noinline)) static void deeper(int at)
{
    put(s_block + at + 1);
}

__attribute__((noinline)) void watched_one(int at)
{
    put(s_block + at);
    deeper(at);
    __asm__ volatile("" ::: "memory");
    put(s_block + at + 2);
}

__attribute__((noinline)) void watched_two(int at, int depth)
{
    put(s_block + at);
    if (depth > 0)
        watched_two(at + 1, depth - 1);
    else if (depth == 0)
        longjmp(s_back, 1);
    __asm__ volatile("" ::: "memory");
}

static int toggle(void)
{
    s_block = malloc(SUPER);
    put(s_block + 10);
    watched_one(20);
    put(s_block + 30);
    if (setjmp(s_back) == 0)
        watched_two(40, 2);
    deeper(50); /* its return is the first after the jump: from then on it is quiet */
    put(s_block + 60);
    watched_two(70, -1);
    put(s_block + 80);
    free(s_block);
    return 0;
}

/* -- many events -------------------------------------------------------------------------------------------
 */

static int many(void)
{
    unsigned seed = 1;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 1103515245 + 12345;
        volatile char *p = malloc((seed >> 20) + 1);
        p[0] = 1;
        p[seed >> 21] = 2;
        free((void *)p);
    }
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} s_modes[] = {{"malloclike", malloclike},
               {"static", in_static_memory},
               {"outlived", outlived},
               {"mapped-again", mapped_again},
               {"mempool", mempool},
               {"metapool", metapool},
               {"named", named},
               {"unknown-pool", unknown_pool},
               {"mappings", mappings},
               {"brk", brk_block},
               {"pvalloc", page_alloc},
               {"toggle", toggle},
               {"many", many}};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof s_modes / sizeof *s_modes; i++)
        if (argc == 2 && strcmp(argv[1], s_modes[i].name) == 0)
            return s_modes[i].run();
    fprintf(stderr, "usage: heaps MODE\n");
    return 2;
}
