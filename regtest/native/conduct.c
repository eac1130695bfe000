/* conduct.c - one program, many ways to live and die: what the recorder must not change.
 *
 *     conduct exit3 | segv | kill | abort | term | fork | exec | exit-in-thread | threads | handler |
 *             timer | spin | scatter
 *     conduct until FILE        works until the file exists
 *
 * Every mode first allocates and writes to both outputs. The same command is run with and without the
 * recorder; outputs and status must be equal, so nothing printed depends on process ids or addresses.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char *s_keep;

static void work(int blocks)
{
    for (int i = 0; i < blocks; i++) {
        char *p = malloc((size_t)i % 100 + 1);
        *(volatile char *)p = (char)i;
        free(p);
    }
    s_keep = malloc(1234);
    s_keep[0] = 1;
}

static int die_by(int signum)
{
    raise(signum);
    return 99;
}

static int segv(void)
{
    static volatile int *volatile nowhere = (volatile int *)8;
    *nowhere = 1;
    return 99;
}

/* Wait for any child: must find its own one, and then no other. */
static int wait_for_any(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        work(50);
        _exit(7);
    }
    pid_t first = waitpid(-1, &status, 0);
    printf("first is mine: %d, status %d\n", first == child, WEXITSTATUS(status));
    pid_t second = waitpid(-1, &status, 0);
    printf("second: %d, %s\n", (int)second, strerror(errno));
    return 0;
}

static int exec_echo(void)
{
    fflush(NULL);
    execl("/bin/echo", "echo", "from the new image", (char *)NULL);
    return 99;
}

/* -- threads that free each other's blocks ------------------------------------------------------ */

enum { THREADS = 4, ROUNDS = 2000 };
static pthread_mutex_t s_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t s_all_there; /* so that all live at once and none takes another's number */
static char *s_box[64];

static void *swap_blocks(void *arg)
{
    uintptr_t seed = (uintptr_t)arg;
    pthread_barrier_wait(&s_all_there);
    for (int i = 0; i < ROUNDS; i++) {
        char *mine = malloc(seed % 200 + 1);
        *(volatile char *)mine = 1;
        seed = seed * 16807 % 2147483647;
        pthread_mutex_lock(&s_lock);
        char *other = s_box[seed % 64];
        s_box[seed % 64] = mine;
        pthread_mutex_unlock(&s_lock);
        free(other);
    }
    return NULL;
}

static int threads(void)
{
    pthread_t t[THREADS];
    pthread_barrier_init(&s_all_there, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, swap_blocks, (void *)(i * 7919 + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 64; i++)
        free(s_box[i]);
    puts("threads done");
    return 0;
}

static void *leave(void *arg)
{
    (void)arg;
    work(10);
    exit(5);
}

static int exit_in_thread(void)
{
    pthread_t t;
    pthread_create(&t, NULL, leave, NULL);
    pthread_join(t, NULL);
    return 99;
}

/* -- a handler that leaves by longjmp out of an access to the heap's neighbourhood --------------- */

static sigjmp_buf s_back;

static void on_segv(int signum)
{
    siglongjmp(s_back, signum);
}

static int handler(void)
{
    signal(SIGSEGV, on_segv);
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(s_back, 1) == 0)
            segv();
        else
            printf("caught %d\n", i);
    return 0;
}

/* For tests that kill it from outside: says when it has done some work, then works for ever. */
static _Noreturn void spin(void)
{
    work(2000);
    puts("ready");
    fflush(NULL);
    for (;;)
        work(1000);
}

/* -- accesses that no coding makes small: where in a megabyte each goes is 20 bits of news -------- */

static void scatter(unsigned accesses)
{
    static uint64_t seed = 88172645463325252u;
    static volatile char *block;
    if (block == NULL)
        block = calloc(1, 1 << 20);
    for (unsigned i = 0; i < accesses; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        block[seed % (1 << 20)]++;
    }
}

static int scatter_much(void)
{
    scatter(5000000);
    puts("scattered");
    return 0;
}

static int until(const char *file)
{
    while (access(file, F_OK) != 0) {
        work(100);
        scatter(20000);
    }
    puts("told");
    return 0;
}

/* -- a timer whose handler goes as soon as it is stopped: its last signal must not come after that ---- */
static volatile sig_atomic_t s_ticks;

static void tick(int signum)
{
    (void)signum;
    s_ticks++;
}

/* It ticks so often that a signal is nearly always on its way when the timer is stopped. */
static void tick_for(int blocks, int which, int signum)
{
    struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    signal(signum, tick);
    setitimer(which, &every, NULL);
    work(blocks);
    setitimer(which, &never, NULL);
    signal(signum, SIG_DFL);
}

static int timer(void)
{
    for (int i = 0; i < 100; i++) {
        tick_for(1000 + 20 * i, ITIMER_REAL, SIGALRM);
        tick_for(1000 + 20 * i, ITIMER_PROF, SIGPROF);
    }
    puts("timed");
    return 0;
}

static int conduct(const char *mode)
{
    if (strcmp(mode, "exit3") == 0)
        return 3;
    if (strcmp(mode, "segv") == 0)
        return segv();
    if (strcmp(mode, "kill") == 0)
        return die_by(SIGKILL);
    if (strcmp(mode, "term") == 0)
        return die_by(SIGTERM);
    if (strcmp(mode, "abort") == 0)
        abort();
    if (strcmp(mode, "fork") == 0)
        return wait_for_any();
    if (strcmp(mode, "exec") == 0)
        return exec_echo();
    if (strcmp(mode, "threads") == 0)
        return threads();
    if (strcmp(mode, "exit-in-thread") == 0)
        return exit_in_thread();
    if (strcmp(mode, "handler") == 0)
        return handler();
    if (strcmp(mode, "timer") == 0)
        return timer();
    if (strcmp(mode, "spin") == 0)
        spin();
    if (strcmp(mode, "scatter") == 0)
        return scatter_much();
    fprintf(stderr, "conduct: unknown mode '%s'\n", mode);
    return 2;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    work(100);
    printf("to stdout\n");
    fprintf(stderr, "to stderr\n");
    if (argc == 3 && strcmp(argv[1], "until") == 0)
        return until(argv[2]);
    return conduct(argc > 1 ? argv[1] : "");
}
