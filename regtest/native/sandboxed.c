/* sandboxed.c - a program that puts itself into a seccomp sandbox.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * usage: sandboxed KIND [before | after]
 *
 * KIND: strict (read, write and exit only, by prctl), kill (the same by a filter that ends the program, by syscall), trap
 * (the filter sends SIGSYS), errno (it refuses), tsync (kill, for all of three threads), trace (a filter that ends the
 * program for ptrace only), socket (for socket only), none. And bare: kill, by an
 * instruction and not by a function of libc; it ends by _exit. At-once: the same, and it ends by exit soon after.
 *
 * The program makes blocks of 111 bytes before and of 222 bytes after that, on memory that malloc has already, and frees
 * them. Before the filter, or after it and these blocks, it writes a line and waits for one. It ends with status 5 by
 * system call.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 1000, ROUNDS = 300, THREADS = 2, ENOUGH = 16 << 20 };

#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define IF_CALL(name, action)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)

static int s_working;

/* A system call without libc. */
static long bare_call(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

enum { BARE = -1 };

/* Permit only a few calls. */
static void confine(uint32_t otherwise, int how)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   IF_CALL(read, SECCOMP_RET_ALLOW),
                                   IF_CALL(write, SECCOMP_RET_ALLOW),
                                   IF_CALL(exit, SECCOMP_RET_ALLOW),
                                   IF_CALL(exit_group, SECCOMP_RET_ALLOW),
                                   IF_CALL(rt_sigreturn, SECCOMP_RET_ALLOW),
                                   BPF_STMT(BPF_RET | BPF_K, otherwise)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (how == BARE) {
        bare_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (bare_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0) != 0)
            _exit(99);
        return;
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, how, &program) != 0)
        _exit(99);
}

/* Forbid one call. */
static void forbid(int call)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), ALLOW};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(99);
}

static void allocate(size_t size)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(size);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* A thread that allocates and spends processor time while the filter is installed. */
static void *work(void *unused)
{
    (void)unused;
    free(malloc(333));
    __atomic_add_fetch(&s_working, 1, __ATOMIC_RELAXED);
    for (;;)
        free(malloc(333));
    return NULL;
}

static void enter(const char *kind)
{
    if (strcmp(kind, "strict") == 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    else if (strcmp(kind, "kill") == 0)
        confine(SECCOMP_RET_KILL_PROCESS, 0);
    else if (strcmp(kind, "trap") == 0)
        confine(SECCOMP_RET_TRAP, 0);
    else if (strcmp(kind, "errno") == 0)
        confine(SECCOMP_RET_ERRNO | 1, 0);
    else if (strcmp(kind, "tsync") == 0)
        confine(SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
    else if (strcmp(kind, "bare") == 0 || strcmp(kind, "at-once") == 0)
        confine(SECCOMP_RET_KILL_PROCESS, BARE);
    else if (strcmp(kind, "trace") == 0)
        forbid(SYS_ptrace);
    else if (strcmp(kind, "socket") == 0)
        forbid(SYS_socket);
}

static void say(const char *line)
{
    if (write(1, line, strlen(line)) < 0)
        syscall(SYS_exit, 98);
}

static void wait_for_line(void)
{
    char byte;
    say("ready\n");
    for (ssize_t n = read(0, &byte, 1); n == 1 && byte != '\n'; n = read(0, &byte, 1))
        ;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    const char *kind = argc > 1 ? argv[1] : "none", *pause = argc > 2 ? argv[2] : "";
    mallopt(M_TRIM_THRESHOLD, ENOUGH);
    mallopt(M_TOP_PAD, ENOUGH);
    free(malloc(1));
    for (int i = 0; i < THREADS && strcmp(kind, "tsync") == 0; i++)
        pthread_create(&thread, NULL, work, NULL);
    while (strcmp(kind, "tsync") == 0 && __atomic_load_n(&s_working, __ATOMIC_RELAXED) < THREADS)
        usleep(1000);
    if (strcmp(pause, "before") == 0)
        wait_for_line();
    allocate(111);
    enter(kind);
    for (int i = 0; i < ROUNDS && strcmp(kind, "at-once") != 0; i++)
        allocate(222);
    if (strcmp(pause, "after") == 0)
        wait_for_line();
    allocate(222);
    say("done\n");
    if (strcmp(kind, "bare") == 0)
        _exit(5);
    if (strcmp(kind, "at-once") == 0)
        exit(5);
    if (strcmp(kind, "strict") == 0)
        syscall(SYS_exit, 5);
    syscall(SYS_exit_group, 5);
}
