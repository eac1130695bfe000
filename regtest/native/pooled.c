/* pooled.c - pools of its own, for the case test_pools.
 *
 *     pooled [PORTIONS]
 *
 * A pool takes pieces of 4096 bytes from malloc and gives out blocks of them; destroying one returns its pieces to a list. It
 * prints how many bytes are live in the pools of each place at the end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The compiler could make copies of functions for some of their callers. */
#define NOT_COPIED __attribute__((noipa))

enum { PIECE = 4096, HEAD = 16 };

struct piece {
    struct piece *next;
    size_t used;
};
struct pool {
    struct piece *pieces;
};

static struct piece *s_unused;

NOT_COPIED struct pool *pool_new(void)
{
    return calloc(1, sizeof(struct pool));
}

NOT_COPIED void *pool_get(struct pool *p, size_t size)
{
    struct piece *piece = p->pieces;
    size = (size + 15) & ~(size_t)15;
    if (!piece || piece->used + size > PIECE) {
        piece = s_unused ? s_unused : malloc(PIECE);
        s_unused = s_unused ? s_unused->next : NULL;
        piece->next = p->pieces;
        piece->used = HEAD;
        p->pieces = piece;
    }
    piece->used += size;
    return (char *)piece + piece->used - size;
}

NOT_COPIED void *pool_zeroed(struct pool *p, size_t count, size_t size)
{
    return memset(pool_get(p, count * size), 0, count * size);
}

NOT_COPIED void pool_reset(struct pool *p)
{
    while (p->pieces) {
        struct piece *piece = p->pieces;
        p->pieces = piece->next;
        piece->next = s_unused;
        s_unused = piece;
    }
}

NOT_COPIED void pool_delete(struct pool *p)
{
    pool_reset(p);
    free(p);
}

NOT_COPIED static struct pool *of_session(int blocks)
{
    struct pool *p = pool_new();
    for (int i = 0; i < blocks; i++)
        strcpy(pool_get(p, 100), "session");
    return p;
}

NOT_COPIED static void of_request(void)
{
    struct pool *p = pool_new();
    for (int i = 0; i < 20; i++)
        strcpy(pool_zeroed(p, 10, 20), "request");
    pool_reset(p);
    strcpy(pool_get(p, 30), "again");
    pool_delete(p);
}

int main(int argc, char **argv)
{
    static struct pool *volatile kept[3];
    for (int i = 0; i < 3; i++)
        kept[i] = of_session(10 * (i + 1));
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 50); i++)
        of_request();
    pool_delete(kept[0]);
    printf("session %d\n", 50 * 100);
    return 0;
}
