/* fates.c - what can happen to a process besides what conduct.c does: its files, limits, signals, other
 * images.
 *
 *     fates MODE     (the table at the end names them)
 *
 * The same command is run with and without the recorder; outputs and status must be equal, so nothing printed
 * depends on process ids, addresses or time. Each mode allocates before and, if it lives, after what it is
 * about: a block of 12347 bytes first, one of 43211 bytes last.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *const s_echo[] = {"echo", "from another image", NULL};

static void mark(size_t size)
{
    volatile char *p = malloc(size);
    p[0] = 1;
    free((void *)p);
}

static void report(const char *what, long number)
{
    printf("%s %ld\n", what, number);
    fflush(stdout);
}

/* -- ways to end --------------------------------------------------------------------------------- */

static int leave_at_once(void)
{
    _exit(4);
}

static void at_quick_exit_say(void)
{
    report("at quick exit", 0);
}

static int leave_quickly(void)
{
    at_quick_exit(at_quick_exit_say);
    quick_exit(6);
}

static void on_term(int signum)
{
    mark((size_t)signum + 3000);
    _exit(8);
}

static int handle_term(void)
{
    signal(SIGTERM, on_term);
    raise(SIGTERM);
    return 99;
}

/* -- other images -------------------------------------------------------------------------------- */

static int wait_for(pid_t child)
{
    int status = 0;
    report("right child", waitpid(child, &status, 0) == child);
    report("status", WEXITSTATUS(status));
    return 0;
}

static int vfork_exec(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execv("/bin/echo", s_echo);
        _exit(127);
    }
    return wait_for(child);
}

static int spawn(void)
{
    pid_t child;
    if (posix_spawn(&child, "/bin/echo", NULL, NULL, s_echo, environ) != 0)
        return 99;
    return wait_for(child);
}

static int shell(void)
{
    report("system", system("echo from a shell; exit 3") >> 8);
    return 0;
}

static int exec_fails(void)
{
    report("execv", execv("/nonexistent/program", s_echo));
    return 0;
}

/* The program has two children; it waits until there is none. */
static int wait_for_any(void)
{
    int status, sum = 0, count = 0;
    for (int i = 1; i <= 2; i++)
        if (fork() == 0)
            _exit(i * 10);
    for (; wait(&status) > 0; count++)
        sum += WEXITSTATUS(status);
    report("children", count);
    report("sum", sum);
    report("no more", errno == ECHILD);
    return 0;
}

static volatile sig_atomic_t s_children;

static void on_child(int signum)
{
    s_children += signum == SIGCHLD;
}

/* The program has one child; no other may be heard of. */
static int count_children(void)
{
    signal(SIGCHLD, on_child);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    wait_for(child);
    for (int i = 0; i < 20000; i++)
        mark(100);
    report("SIGCHLD", s_children);
    return 0;
}

/* -- files and limits ------------------------------------------------------------------------------ */

static int close_all(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    report("first free", open("/dev/null", O_RDONLY));
    return 0;
}

static int few_files(void)
{
    struct rlimit limit = {16, 16};
    int fd, opened = 0;
    for (fd = 3; fd < 1024; fd++)
        close(fd);
    setrlimit(RLIMIT_NOFILE, &limit);
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        opened++;
    int error = errno;
    report("too many", error == EMFILE);
    report("some", opened >= 10);
    return 0;
}

static int small_files(void)
{
    struct rlimit limit = {4096, 4096};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    FILE *f = tmpfile();
    static char page[4096];
    if (f == NULL)
        return 99;
    report("fits", write(fileno(f), page, sizeof page));
    report("does not", write(fileno(f), page, sizeof page));
    fclose(f);
    return 0;
}

static int load_library(void)
{
    for (int i = 0; i < 20; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        double (*square_root)(double) = library ? (double (*)(double))dlsym(library, "sqrt") : NULL;
        if (square_root == NULL || square_root(49) != 7)
            return 99;
        dlclose(library);
    }
    report("loaded", 20);
    return 0;
}

/* -- signals and jumps ----------------------------------------------------------------------------- */

static volatile char *s_block;

static void on_usr1(int signum)
{
    s_block[signum]++;
}

static int other_stack(void)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    struct sigaction action = {.sa_handler = on_usr1, .sa_flags = SA_ONSTACK};
    s_block = calloc(1, 64);
    sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++)
        raise(SIGUSR1);
    report("handled", s_block[SIGUSR1]);
    return 0;
}

static jmp_buf s_back;

static volatile int s_leap; /* leave by longjmp; the frames that are jumped over never free theirs */

static void dive(int depth)
{
    char *volatile p = malloc((size_t)depth + 1);
    p[depth] = 1;
    if (depth < 20)
        dive(depth + 1);
    else if (s_leap)
        longjmp(s_back, 1);
    free(p);
}

static int jump(void)
{
    volatile int jumps = 0;
    for (volatile int i = 0; i < 400; i++)
        if (setjmp(s_back) == 0) {
            s_leap = i % 2;
            dive(0);
        } else {
            jumps++;
        }
    report("jumps", jumps);
    return 0;
}

/* -- 64 threads that free each other's blocks -------------------------------------------------------- */

enum { THREADS = 64, ROUNDS = 300, BOXES = 97 };
static pthread_mutex_t s_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t s_all_there; /* so that all live at once and none takes another's number */
static char *s_box[BOXES];

static void *exchange(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    pthread_barrier_wait(&s_all_there);
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 16807 % 2147483647;
        char *mine = malloc(seed % 300 + 1);
        *(volatile char *)mine = 1;
        pthread_mutex_lock(&s_lock);
        char *other = s_box[seed % BOXES];
        s_box[seed % BOXES] = mine;
        pthread_mutex_unlock(&s_lock);
        free(other);
    }
    return NULL;
}

static int many_threads(void)
{
    pthread_t t[THREADS];
    pthread_barrier_init(&s_all_there, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, exchange, (void *)(i * 7919 + 1)) != 0)
            return 99;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < BOXES; i++)
        free(s_box[i]);
    report("blocks", THREADS * ROUNDS);
    return 0;
}

/* -- system calls that the program forbids itself: how the recorder's last slab could be sent, too ----------
 */

static int forbid_sockets(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 1, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvfrom, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    report("no new rights", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    report("filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    report("send", send(0, "", 1, 0) < 0 ? errno : 0);
    return 0;
}

/* From here on be killed for the call that malloc makes to give pages back. */
static void forbid_advice(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    report("no new rights", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    report("filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* More accesses than the recorder has room for in the memory that it has used so far. */
static int live_on_filtered(void)
{
    volatile int *words = calloc(1024, sizeof *words);
    forbid_advice();
    for (int i = 0; i < 8000000; i++)
        words[i % 1024] += i;
    report("sum", words[1000]);
    free((void *)words);
    return 0;
}

static int execute_filtered(void)
{
    forbid_advice();
    report("execv", execv("/bin/echo", s_echo));
    return 1;
}

/* ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(void);
} s_modes[] = {
    {"_exit", leave_at_once},           {"quick_exit", leave_quickly}, {"handled-term", handle_term},
    {"vfork-exec", vfork_exec},         {"posix_spawn", spawn},        {"system", shell},
    {"failing-exec", exec_fails},       {"sigchld", count_children},   {"wait-any", wait_for_any},
    {"close-all", close_all},           {"limit-nofile", few_files},   {"limit-fsize", small_files},
    {"dlopen", load_library},           {"sigaltstack", other_stack},  {"longjmp", jump},
    {"64-threads", many_threads},       {"seccomp", forbid_sockets},   {"seccomp-kill", live_on_filtered},
    {"seccomp-exec", execute_filtered},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof s_modes / sizeof *s_modes; i++)
        if (argc == 2 && strcmp(argv[1], s_modes[i].name) == 0) {
            mark(12347);
            int status = s_modes[i].run();
            mark(43211);
            return status;
        }
    fprintf(stderr, "usage: fates MODE\n");
    return 2;
}
