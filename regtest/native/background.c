/* background.c - a program that goes into the background by two forks, whose parents end at once
 * (regtest/cases/test_native_forks.py).
 *
 *     background late      each child begins 300 ms after its parent has ended, when the collector would be gone
 *     background killed    the first child is killed before it begins
 *     background refused   the fork fails
 *
 * A process that is made by a system call, so that the recorder does not follow it, traces the others: the kernel stops each
 * child before its first instruction.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_TRACER = 77, AFTER = 300000 /* microseconds */, OTHER_USER = 65534 };

static void make_block(size_t size)
{
    char *volatile block = malloc(size);
    free(block);
}

static void go_on(pid_t process, int with_signal)
{
    ptrace(PTRACE_CONT, process, NULL, (void *)(long)with_signal);
}

/* Hold each child until its parent has ended; either may be reported first. */
static void trace_all(int kills)
{
    int status, ended = 0;
    pid_t held = 0;
    for (pid_t process; (process = waitpid(-1, &status, __WALL)) > 0;) {
        const int event = status >> 16;
        if (!WIFSTOPPED(status))
            ended = 1;
        else if (event == PTRACE_EVENT_STOP)
            held = process;
        else
            go_on(process, event ? 0 : WSTOPSIG(status));
        if (!held || !ended)
            continue;
        usleep(AFTER);
        if (kills)
            kill(held, SIGKILL);
        go_on(held, 0);
        held = ended = 0;
    }
}

static void start_tracer(int kills)
{
    int to[2], from[2];
    char ready = 0;
    const pid_t traced = getpid();
    if (pipe(to) != 0 || pipe(from) != 0)
        exit(NO_TRACER);
    const pid_t tracer = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (tracer == 0) {
        const long options = PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL;
        if (read(to[0], &ready, 1) == 1 && ptrace(PTRACE_SEIZE, traced, NULL, (void *)options) == 0 &&
            write(from[1], "", 1) == 1) {
            close(from[1]);
            trace_all(kills);
        }
        syscall(SYS_exit_group, 0);
    }
    prctl(PR_SET_PTRACER, tracer); /* where only ancestors may trace */
    close(from[1]);
    if (write(to[1], "", 1) != 1 || read(from[0], &ready, 1) != 1)
        exit(NO_TRACER);
}

/* Fork, and end the parent at once. */
static void leave_parent(size_t block)
{
    make_block(block);
    const pid_t child = fork();
    if (child > 0)
        _exit(3);
    if (child < 0)
        exit(4);
}

static int refused(void)
{
    const struct rlimit none = {0, 0};
    if ((getuid() == 0 && setresuid(OTHER_USER, OTHER_USER, OTHER_USER) != 0) ||
        setrlimit(RLIMIT_NPROC, &none) != 0)
        return NO_TRACER;
    make_block(1234);
    errno = ENOENT;
    const pid_t child = fork();
    return child < 0 && errno == EAGAIN ? 5 : 6;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "refused") == 0)
        return refused();
    start_tracer(strcmp(argv[1], "killed") == 0);
    leave_parent(1234);
    leave_parent(1235);
    errno = ENOENT;
    make_block(1236);
    return 6;
}
