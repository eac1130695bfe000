/* pages.c - a cache of web pages, whose sizes change with the time of day; a program to choose an allocator for.
 *
 * The cache holds at most 30 MB. Each new page takes the place of pages chosen at random, so that blocks of many sizes
 * and ages lie side by side, as in a server that has run for long. At night the cache is nearly emptied.
 * docs/tutorial.md compares allocators on it. `pages N` lets N pages in (default 20000); each run does the same.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACES 5000
#define LIMIT (30 * 1000 * 1000)

static struct {
    char *text;
    size_t size;
} s_cache[PLACES];

static size_t s_bytes;
static unsigned s_seed = 1;

static unsigned random_below(unsigned n)
{
    s_seed = s_seed * 1103515245 + 12345;
    return (s_seed >> 8) % n;
}

static void drop(unsigned place)
{
    free(s_cache[place].text);
    s_bytes -= s_cache[place].size;
    s_cache[place].text = NULL;
    s_cache[place].size = 0;
}

static void put(size_t size)
{
    while (s_bytes + size > LIMIT)
        drop(random_below(PLACES));
    unsigned place = random_below(PLACES);
    drop(place);
    s_cache[place].text = malloc(size);
    memset(s_cache[place].text, 'x', size);
    s_cache[place].size = size;
    s_bytes += size;
}

int main(int argc, char **argv)
{
    unsigned pages = argc > 1 ? (unsigned)atoi(argv[1]) : 20000;
    for (unsigned i = 0; i < pages; i++) {
        unsigned hour = i * 48 / pages % 24; /* two days */
        put(1000 + random_below(2000 + 1500 * hour));
        if (hour == 0 && s_bytes > LIMIT / 10) /* night */
            drop(random_below(PLACES));
    }
    for (unsigned place = 0; place < PLACES; place += 10) /* what is left at the end */
        drop(place);
    printf("%zu bytes in the cache\n", s_bytes);
    return 0;
}
