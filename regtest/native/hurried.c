/* hurried.c - makes events as fast as it can, so that the ring of the native recorder is full.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * usage: hurried GATE THREADS PAIRS
 *
 * It makes a block, writes a line, and waits until the file GATE exists. Then each thread makes and frees PAIRS blocks of
 * 24 bytes, with a realloc at every 16th. It writes another line and waits until GATE is gone. The blocks of 1000 bytes
 * from the first part are freed at the end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEPT = 100, KEPT_BYTES = 1000, BYTES = 24, GROWN = 40, EACH = 16 };

static long s_pairs;

static void *hurry(void *unused)
{
    (void)unused;
    for (long i = 0; i < s_pairs; i++) {
        void *volatile p = malloc(BYTES);
        if (i % EACH == 0)
            p = realloc(p, GROWN);
        free(p);
    }
    return NULL;
}

static void wait_until(const char *gate, int there)
{
    while ((access(gate, F_OK) == 0) != there)
        usleep(1000);
}

int main(int argc, char **argv)
{
    void *kept[KEPT];
    pthread_t threads[16];
    const long n = argc == 4 ? atol(argv[2]) : 0;
    if (n < 1 || n > 16)
        return 2;
    s_pairs = atol(argv[3]);
    for (int i = 0; i < KEPT; i++)
        kept[i] = malloc(KEPT_BYTES);
    puts("ready");
    fflush(stdout);
    wait_until(argv[1], 1);
    for (long i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, hurry, NULL);
    for (long i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    fflush(stdout);
    wait_until(argv[1], 0);
    for (int i = 0; i < KEPT; i++)
        free(kept[i]);
    return 0;
}
