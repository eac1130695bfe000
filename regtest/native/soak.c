/* soak.c - a program of as many heap accesses as one likes, for traces that are long and not monotonous.
 *
 *     soak ACCESSES        works until it has made so many loads and stores of its blocks, then prints how
 * many (a compiler may save some, but none of those to data; an instruction that does both counts as two)
 *
 * A working set of lists, whose nodes are 16 to 512 bytes: it picks a list, walks it, changes what it finds,
 * and now and then gives a node back and makes another. What lives is the same all the time, however long it
 * runs. Where it goes next depends on what it has loaded, so neither addresses nor values repeat.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LISTS = 4096, LENGTH = 16 };

struct node {
    struct node *next;
    uint64_t words;
    volatile uint64_t data[]; /* each word is an access of its own: two at once would be counted as two */
};

static struct node *s_list[LISTS];
static uint64_t s_seed = 20120823, s_accesses;

static uint64_t random_below(uint64_t n)
{
    s_seed = s_seed * 6364136223846793005u + 1442695040888963407u;
    return (s_seed >> 33) % n;
}

static struct node *make(struct node *next)
{
    uint64_t words = random_below(63);
    struct node *n = malloc(sizeof *n + words * sizeof *n->data);
    if (n == NULL)
        exit(1);
    *n = (struct node){next, words};
    for (uint64_t i = 0; i < words; i++)
        n->data[i] = s_seed ^ i;
    s_accesses += 2 + words;
    return n;
}

static void renew_first(struct node **list)
{
    struct node *old = *list;
    *list = make(old->next);
    s_accesses += 1;
    free(old);
}

/* To the end and round: the first node follows the last. */
static void walk(struct node **list)
{
    struct node *n = *list, *last = n;
    for (; n != NULL; last = n, n = n->next) {
        for (uint64_t i = 0; i < n->words; i += 3)
            n->data[i] += s_seed;
        s_accesses += 2 + 2 * ((n->words + 2) / 3);
    }
    last->next = *list;
    *list = last->next->next;
    last->next->next = NULL;
    s_accesses += 3;
}

int main(int argc, char **argv)
{
    double wanted = argc == 2 ? atof(argv[1]) : 0;
    if (wanted < 1) {
        fprintf(stderr, "usage: soak ACCESSES\n");
        return 2;
    }
    for (int i = 0; i < LISTS * LENGTH; i++)
        s_list[i % LISTS] = make(s_list[i % LISTS]);
    while ((double)s_accesses < wanted) {
        struct node **list = &s_list[random_below(LISTS)];
        walk(list);
        if (random_below(4) == 0)
            renew_first(list);
    }
    printf("%ju\n", (uintmax_t)s_accesses);
    return 0;
}
