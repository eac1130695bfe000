/* teller.c - a program that counts its own heap events where they outlive it: in a shared mapping of a file.
 *
 *     teller COUNTS         works until it is killed
 *
 * Over and over it makes a block of 70021 bytes, stores, loads and modifies 64 of its bytes in turn, one byte
 * after the other, and frees it. Each event is counted right after it happened, so after SIGKILL the counts
 * are what was done, or one less. COUNTS then holds five native 64-bit numbers: News, stores, loads,
 * modifies, Frees. The counting itself is no heap access. The work of eight bytes is in sequence, without a branch,
 * so that many accesses belong together for a recorder that works in runs of code.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 70021, BYTES = 64, STEP = 8 };
enum { NEWS, STORES, LOADS, MODIFIES, FREES, COUNTS };

static volatile uint64_t *s_count;

static volatile uint64_t *map_counts(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || ftruncate(fd, COUNTS * sizeof *s_count) != 0)
        return NULL;
    void *at = mmap(NULL, COUNTS * sizeof *s_count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

/* One instruction for each event, whatever the compiler thinks. */
#define TOUCH(p, i)                                                                                          \
    do {                                                                                                     \
        unsigned char seen;                                                                                  \
        __asm__ volatile("movb $7, %0" : "=m"((p)[i]));                                                      \
        s_count[STORES]++;                                                                                   \
        __asm__ volatile("movb %1, %0" : "=q"(seen) : "m"((p)[i]));                                          \
        s_count[LOADS]++;                                                                                    \
        __asm__ volatile("incb %0" : "+m"((p)[i]));                                                          \
        s_count[MODIFIES]++;                                                                                 \
    } while (0)

static void one_block(void)
{
    volatile unsigned char *p = malloc(BLOCK);
    s_count[NEWS]++;
    for (int i = 0; i < BYTES; i += STEP) {
        TOUCH(p, i);
        TOUCH(p, i + 1);
        TOUCH(p, i + 2);
        TOUCH(p, i + 3);
        TOUCH(p, i + 4);
        TOUCH(p, i + 5);
        TOUCH(p, i + 6);
        TOUCH(p, i + 7);
    }
    free((void *)p);
    s_count[FREES]++;
}

int main(int argc, char **argv)
{
    s_count = argc == 2 ? map_counts(argv[1]) : NULL;
    if (s_count == NULL) {
        fprintf(stderr, "usage: teller COUNTS (a file that can be written)\n");
        return 2;
    }
    for (;;)
        one_block();
}
