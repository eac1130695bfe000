/* named.c - allocations through a wrapper of a wrapper, whose numbers by function are known; see test_names.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline))

APART void *raw_alloc(size_t n)
{
    void *p = malloc(n);
    if (!p)
        abort();
    return p;
}

APART void *pool_alloc(size_t n)
{
    char *p = raw_alloc(n + 16);
    *p = 0;
    return p + 16;
}

APART void *xmalloc(size_t n)
{
    char *p = pool_alloc(n);
    *p = 0;
    return p;
}

struct item {
    char text[100];
};

APART struct item *item_new(void)
{
    struct item *t = xmalloc(sizeof *t);
    t->text[0] = 1;
    return t;
}

static inline char *copied(const char *text)
{
    char *p = xmalloc(strlen(text) + 1);
    return strcpy(p, text);
}

APART void items(void)
{
    for (int i = 0; i < 10; i++)
        item_new();
}

APART void texts(void)
{
    for (int i = 0; i < 20; i++)
        copied("nine char");
}

APART void direct(void)
{
    for (int i = 0; i < 30; i++) {
        char *volatile p = malloc(50);
        free(p);
    }
}

APART void grown(void)
{
    char *p = NULL;
    for (int i = 1; i <= 5; i++)
        p = realloc(p, 100 * i);
    free(p);
}

APART static void cleared(void)
{
    for (int i = 0; i < 6; i++) {
        char *volatile p = calloc(3, 7);
        (void)p;
    }
}

APART void nested(int n)
{
    if (n) {
        items();
        nested(n - 1);
    }
}

int main(void)
{
    items();
    texts();
    direct();
    grown();
    cleared();
    nested(3);
    return 0;
}
