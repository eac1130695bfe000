/* before.c - blocks of all kinds before the recorder comes, for the case test_existing_blocks.
 *
 *     before one|threads|busy|broken
 *
 * It prints `live ADDRESS BYTES` for each block that it has, with the bytes that may be used, and `gone ADDRESS` for
 * each that it has freed; then `ready`. After a line of input it frees and resizes half of the blocks and prints `kept
 * ADDRESS` for each of the others, then `done`; and after another one it ends. With `busy`, threads allocate all the
 * time until then. With `broken`, the size of a chunk is wrong meanwhile.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MOST = 4000,
    THREADS = 4,
    SMALL = 300,
    WIDE = 100000,
    SPREAD = 900 /* of WIDE: more than a heap of an arena */
};

static struct {
    void *at;
    bool gone;
} s_blocks[MOST];
static int s_count;
static pthread_mutex_t s_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t s_made, s_end;
static volatile bool s_ends;

static void *note(void *block)
{
    if (!block || s_count == MOST)
        abort();
    pthread_mutex_lock(&s_lock);
    s_blocks[s_count++].at = block;
    pthread_mutex_unlock(&s_lock);
    return block;
}

static void drop(int i)
{
    if (s_blocks[i].gone)
        return;
    s_blocks[i].gone = true;
    free(s_blocks[i].at);
}

/* Blocks of all small sizes. Every third is freed, so that lists of caches, fast bins and others have chunks. */
static void make_small(void)
{
    const int first = s_count;
    for (int i = 0; i < SMALL; i++)
        note(malloc((size_t)(i * 37 % 1500)));
    for (int i = first; i < first + SMALL; i += 3)
        drop(i);
    for (int i = 0; i < 20; i++)
        note(malloc(40));
    for (int i = s_count - 20; i < s_count - 2; i++) /* more than a cache takes */
        drop(i);
}

static void make_mapped(void)
{
    note(malloc(200000));
    note(calloc(1, 1 << 20));
    note(aligned_alloc(64, 300032));
    note(aligned_alloc(4096, 1 << 20));
    note(memalign(1 << 21, 500000));
    note(realloc(memalign(8192, 400000), 900000));
    note(realloc(malloc(300000), 5000000));
    free(malloc(250000)); /* glibc raises its threshold */
}

static void *work(void *number)
{
    const int n = (int)(size_t)number, first = s_count;
    for (int i = 0; i < 100; i++)
        note(malloc((size_t)(i * 53 % 3000 + n)));
    pthread_mutex_lock(&s_lock);
    for (int i = first; i < s_count && n > 0; i += 4)
        drop(i);
    pthread_mutex_unlock(&s_lock);
    for (int i = 0; i < SPREAD && n == 1; i++)
        note(malloc(WIDE));
    pthread_barrier_wait(&s_made);
    pthread_barrier_wait(&s_end);
    return NULL;
}

static void *allocate(void *any)
{
    void *own[64] = {0};
    for (unsigned n = 0; !s_ends; n++) {
        if (n % 32 == 0)
            usleep(1000); /* so that traces stay small */
        free(own[n % 64]);
        own[n % 64] = malloc(n * 67 % 5000);
    }
    for (int i = 0; i < 64; i++)
        free(own[i]);
    return any;
}

static void print_all(void)
{
    for (int i = 0; i < s_count; i++)
        if (s_blocks[i].gone)
            printf("gone %p\n", s_blocks[i].at);
        else
            printf("live %p %zu\n", s_blocks[i].at, malloc_usable_size(s_blocks[i].at));
}

static void change_half(void)
{
    for (int i = 0; i < s_count; i++)
        if (s_blocks[i].gone)
            continue;
        else if (i % 4 == 0)
            drop(i);
        else if (i % 4 == 1)
            s_blocks[i].at = realloc(s_blocks[i].at, malloc_usable_size(s_blocks[i].at) + 5000);
        else
            printf("kept %p\n", s_blocks[i].at);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "one";
    static char out[1 << 20];
    pthread_t thread[THREADS];
    const bool threads = strcmp(mode, "threads") == 0, busy = strcmp(mode, "busy") == 0;
    setvbuf(stdout, out, _IOFBF, sizeof out);
    make_small();
    make_mapped();
    /* a mapping of its own beside those of malloc, which looks like one at its beginning */
    char *other = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    other[5000] = 1;
    pthread_barrier_init(&s_made, NULL, THREADS + 1);
    pthread_barrier_init(&s_end, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS && (threads || busy); i++)
        pthread_create(&thread[i], NULL, busy ? allocate : work, (void *)i);
    if (threads)
        pthread_barrier_wait(&s_made);
    print_all();
    size_t *size = (size_t *)s_blocks[1].at - 1, usual = *size;
    if (strcmp(mode, "broken") == 0)
        *size = 48;
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF)
        return 1;
    *size = usual;
    change_half();
    puts("done");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    s_ends = true;
    if (threads)
        pthread_barrier_wait(&s_end);
    for (int i = 0; i < THREADS && (threads || busy); i++)
        pthread_join(thread[i], NULL);
    return 0;
}
