/* keeps.c - makes a large trace, always the same; for test_keep_last.py.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * keeps ROUNDS LIVE [fork]: that many rounds, after LIVE blocks that stay; with a block made by a parent and one
 * by a child that does the rest.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 4096, LARGEST = 4000 };

static uint64_t s_state = 88172645463325252u;

/* Marsaglia's xorshift: bytes that do not compress. */
static uint64_t draw(uint64_t below)
{
    s_state ^= s_state << 13;
    s_state ^= s_state >> 7;
    s_state ^= s_state << 17;
    return (s_state >> 20) % below;
}

static char *s_block[BLOCKS];
static size_t s_size[BLOCKS];

static void work(long rounds)
{
    for (long i = 0; i < rounds; i++) {
        size_t k = draw(BLOCKS);
        if (draw(8) == 0) {
            free(s_block[k]);
            s_size[k] = 16 + draw(LARGEST);
            s_block[k] = calloc(1, s_size[k]);
        } else {
            for (int j = 0; s_block[k] && j < 6; j++)
                s_block[k][draw(s_size[k])]++;
        }
    }
}

int main(int n, char **a)
{
    static char *volatile kept;
    static void *volatile *live;
    live = calloc((size_t)atol(a[2]) + 1, sizeof *live);
    for (long i = 0; i < atol(a[2]); i++)
        live[i] = malloc(8 + draw(LARGEST));
    if (n > 3 && fork() != 0)
        return wait(NULL) < 0;
    kept = malloc(12345);
    kept[0] = 1;
    work(atol(a[1]));
    return kept[1];
}
