/* resident.c - memory of all kinds, for the case test_resident: what it prints is what should be found.
 *
 *     resident parts FILE | kept | arenas | maps | reused | wait | older | grows | busy | ends HOW
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    TABLES = 40,
    TABLE = 300000,
    THREADS = 8,
    DEEP = 300000,
    PICTURE = 24 << 20,
    MODEL = 12 << 20
};

static long resident(void)
{
    long all = 0, in_memory = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &in_memory) != 2)
        abort();
    fclose(file);
    return in_memory * PAGE;
}

static void *filled(size_t size)
{
    void *p = malloc(size);
    if (!p)
        abort();
    return memset(p, 1, size);
}

/* -- parts: blocks, a mapping, a file, stacks -- */

static pthread_barrier_t s_barrier;

static void *go_deep(void *any)
{
    char frame[DEEP];
    memset(frame, 1, sizeof frame);
    __asm__ volatile("" ::"r"(frame) : "memory"); /* so that the compiler does not leave it out */
    pthread_barrier_wait(&s_barrier);             /* all are deep */
    pthread_barrier_wait(&s_barrier);             /* until the mark was made */
    return any;
}

static char *picture(void)
{
    char *p = mmap(NULL, PICTURE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : memset(p, 2, PICTURE);
}

static char *model(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, MODEL) != 0)
        abort();
    char *p = mmap(NULL, MODEL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : memset(p, 3, MODEL);
}

static int parts(const char *path)
{
    pthread_t thread[THREADS];
    void *table[TABLES];
    for (int i = 0; i < TABLES; i++)
        table[i] = filled(TABLE);
    char *own = picture(), *file = model(path);
    pthread_barrier_init(&s_barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, go_deep, NULL);
    pthread_barrier_wait(&s_barrier);
    LJTRACE_MARK("full");
    pthread_barrier_wait(&s_barrier);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    munmap(own, PICTURE);
    munmap(file, MODEL);
    for (int i = 0; i < TABLES; i++)
        free(table[i]);
    LJTRACE_MARK("emptied");
    return 0;
}

/* -- kept: all is freed but a few small blocks, and stays resident -- */

enum { ROWS = 30, CELLS = 1500 };

static int kept(void)
{
    static char *row[ROWS], *cell[ROWS][CELLS], *label[ROWS];
    free(filled(4 << 20)); /* from now on, blocks up to this size come from the heap */
    for (int i = 0; i < ROWS; i++) {
        row[i] = filled(900000);
        for (int k = 0; k < CELLS; k++)
            cell[i][k] = filled(180);
        label[i] = filled(20);
    }
    for (int i = 0; i < ROWS; i++) {
        free(row[i]);
        for (int k = 0; k < CELLS; k++)
            free(cell[i][k]);
    }
    LJTRACE_MARK("freed");
    const long before = resident();
    malloc_trim(0);
    printf("%ld\n", before - resident());
    LJTRACE_MARK("trimmed");
    return label[3][0] - 1;
}

/* -- arenas: threads that allocate at the same time -- */

enum { WORKERS = 16, PIECES = 3000, END = 100000 };

static void *work(void *any)
{
    char **piece = filled(PIECES * sizeof *piece);
    unsigned seed = (unsigned)(size_t)any;
    for (int i = 0; i < PIECES; i++)
        piece[i] = filled(64 + (seed = seed * 1664525 + 1013904223) % 1500);
    char *left = strdup("the summary of this turn");
    free(filled(END)); /* at the end of the arena */
    for (int i = 0; i < PIECES; i++)
        free(piece[i]);
    free(piece);
    pthread_barrier_wait(&s_barrier);
    pthread_barrier_wait(&s_barrier);
    return left;
}

/* Returns when all threads have worked; they wait then. */
static void start_workers(pthread_t *thread)
{
    pthread_barrier_init(&s_barrier, NULL, WORKERS + 1);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_create(&thread[i], NULL, work, (void *)(i + 1));
    pthread_barrier_wait(&s_barrier);
}

static void end_workers(const pthread_t *thread)
{
    pthread_barrier_wait(&s_barrier);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
}

static int arenas(void)
{
    pthread_t thread[WORKERS];
    start_workers(thread);
    LJTRACE_MARK("all ran");
    const long before = resident();
    malloc_trim(0);
    printf("%ld\n", before - resident());
    LJTRACE_MARK("trimmed");
    end_workers(thread);
    return 0;
}

/* How many arenas malloc has besides the main one. */
static int arenas_of_threads(void)
{
    char text[1 << 17] = "";
    int n = -1;
    FILE *to = fmemopen(text, sizeof text, "w");
    if (!to || malloc_info(0, to) || fclose(to))
        abort();
    for (const char *at = text; (at = strstr(at, "<heap nr=")); at++)
        n++;
    return n;
}

/* -- older: arenas and a mapping from before the recorder comes -- */

static int older(void)
{
    pthread_t thread[WORKERS];
    start_workers(thread);
    const char *own = picture();
    printf("ready %d\n", arenas_of_threads());
    fflush(stdout);
    getchar();
    end_workers(thread);
    return own[1] - 2;
}

/* -- maps: all calls that map memory -- */

static int maps(void)
{
    char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *q = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int id = shmget(IPC_PRIVATE, 5 * PAGE, 0600);
    char *shared = shmat(id, NULL, 0), *again = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    munmap(p + 4 * PAGE, 2 * PAGE - 1);
    q = mremap(q, 4 * PAGE, 40 * PAGE, MREMAP_MAYMOVE);
    char *top = sbrk(3 * PAGE);
    shmdt(again);
    munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
    printf("%p %d\n%p %d\n%p %d\n%p %d\n%p %d\n", (void *)p, 4 * PAGE, (void *)(p + 6 * PAGE), 10 * PAGE,
           (void *)q, 40 * PAGE, (void *)top, 3 * PAGE, (void *)shared, 5 * PAGE);
    fflush(stdout);
    LJTRACE_MARK("mapped");
    return 0;
}

/* Memory is mapped where a block was that malloc had mapped and unmapped. Other blocks are freed, too, so that all that the
 * allocator has is free. */
static int reused(void)
{
    static char *small[TABLES];
    for (int i = 0; i < TABLES; i++)
        small[i] = filled(PAGE);
    char *block = filled(PICTURE);
    char *at = (char *)((uintptr_t)block & -(uintptr_t)PAGE);
    free(block);
    for (int i = 0; i < TABLES; i++)
        free(small[i]);
    char *p = mmap(at, PICTURE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return 1;
    memset(p, 1, PICTURE);
    puts(p == at ? "there" : "elsewhere");
    return 0;
}

/* The heap becomes larger all the time. */
static int grows(void)
{
    enum { STEP = 16 * PAGE, STEPS = 6000 };
    for (int i = 0; i < STEPS; i++)
        memset(sbrk(STEP), 1, STEP);
    return 0;
}

/* Memory is mapped and filled, with so many blocks meanwhile that the recorder's buffer is always full. */
static int busy(void)
{
    enum { STEPS = 600, BLOCKS = 3000 };
    for (int i = 0; i < STEPS; i++) {
        char *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return 1;
        memset(p, 1, 64 * PAGE);
        for (int j = 0; j < BLOCKS; j++) {
            char *volatile block = malloc(20);
            free(block);
        }
    }
    return 0;
}

/* -- ends: how a program ends without exit() -- */

static void leave(int signal)
{
    _exit(signal == SIGALRM ? 5 : 6);
}

/* A child of vfork ends first: that is not the end of this program. Then all blocks are freed, and the program
 * ends: by _exit, by _exit in a handler that has interrupted malloc most likely, or by a signal. */
static int ends(const char *how)
{
    static char *block[TABLES];
    for (int i = 0; i < TABLES; i++)
        block[i] = filled(TABLE);
    const pid_t child = vfork();
    if (child == 0)
        _exit(3);
    waitpid(child, NULL, 0);
    usleep(900000);
    for (int i = 0; i < TABLES; i++)
        free(block[i]);
    if (strcmp(how, "signal") == 0)
        raise(SIGKILL);
    if (strcmp(how, "handler") == 0) {
        signal(SIGALRM, leave);
        ualarm(50000, 0);
        for (;;) {
            char *volatile again = malloc(20);
            free(again);
        }
    }
    _exit(4);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "parts") == 0 && argc > 2)
        return parts(argv[2]);
    if (strcmp(what, "kept") == 0)
        return kept();
    if (strcmp(what, "arenas") == 0)
        return arenas();
    if (strcmp(what, "maps") == 0)
        return maps();
    if (strcmp(what, "reused") == 0)
        return reused();
    if (strcmp(what, "grows") == 0)
        return grows();
    if (strcmp(what, "busy") == 0)
        return busy();
    if (strcmp(what, "ends") == 0 && argc > 2)
        return ends(argv[2]);
    if (strcmp(what, "older") == 0)
        return older();
    if (strcmp(what, "wait") == 0) {
        char *older = filled(PICTURE);
        puts("ready");
        fflush(stdout);
        getchar();
        char *newer = filled(PICTURE);
        puts("more");
        fflush(stdout);
        getchar();
        return older[1] + newer[1] - 2;
    }
    fprintf(stderr,
            "usage: resident parts FILE | kept | arenas | maps | wait | older | grows | busy | ends HOW\n");
    return 2;
}
