/* limited.c - a program that goes on long after a small limit of the file is reached.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * usage: limited ACCESSES BLOCKS [FLAG]
 *
 * It stores to a table of the heap at places without a pattern, 3,000,000 times, which makes a file of some
 * megabytes; prints `ready`; with FLAG it goes on only when a file of that name is there. It then stores ACCESSES
 * times more, and makes and frees BLOCKS blocks. If FLAG is `fork` it waits for nothing, but has a child at its end,
 * which stores CHILDS times.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 1 << 16, FIRST = 3000000, CHILDS = 1000 };

static uint32_t store(uint32_t *table, uint32_t seed, unsigned long times)
{
    for (unsigned long i = 0; i < times; i++) {
        seed = seed * 1664525 + 1013904223;
        table[seed >> 16] = seed;
    }
    return seed;
}

static void wait_for(const char *flag)
{
    while (access(flag, F_OK) != 0)
        usleep(10000);
}

static void store_in_child(uint32_t *table, uint32_t seed)
{
    pid_t child = fork();
    if (child == 0) {
        store(table, seed, CHILDS);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    uint32_t *table = calloc(WORDS, sizeof *table);
    uint32_t seed = store(table, 1, FIRST);
    puts("ready");
    fflush(stdout);
    const char *flag = argc > 3 ? argv[3] : "";
    if (*flag && strcmp(flag, "fork") != 0)
        wait_for(flag);
    seed = store(table, seed, strtoul(argv[1], NULL, 10));
    for (unsigned long i = strtoul(argv[2], NULL, 10); i > 0; i--) {
        char *volatile block = malloc(24);
        free(block);
    }
    if (strcmp(flag, "fork") == 0)
        store_in_child(table, seed);
    printf("%u\n", seed);
    free(table);
    return 0;
}
