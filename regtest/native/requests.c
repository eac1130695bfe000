/* requests.c - a program that talks to the recorder, forks, and lets the kernel touch its heap.
 *
 * requests switch | fork | kernel | wait FILE
 *   switch  stores before, between and after LJTRACE_START and LJTRACE_STOP, with a mark between
 *   fork    a child frees what it inherited and allocates; then system() runs another program
 *   kernel  reads a file into a block, at an offset, and writes it out of the block
 *   wait F  allocates until the file F exists: time for monitor commands
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/ljtrace.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int do_switch(void)
{
    volatile char *p = malloc(60001);
    p[1] = 1;
    LJTRACE_START();
    p[2] = 2;
    LJTRACE_MARK("between");
    LJTRACE_STOP();
    p[3] = 3;
    free((void *)p);
    return 0;
}

static int child(volatile char *inherited)
{
    inherited[7] = 1;
    free((void *)inherited);
    for (int i = 0; i < 1000; i++) {
        volatile char *q = malloc(60003);
        q[5] = (char)i;
        free((void *)q);
    }
    return 5;
}

static int do_fork(void)
{
    int status = 0;
    volatile char *p = malloc(60001);
    p[0] = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(p));
    if (waitpid(-1, &status, 0) != pid || WEXITSTATUS(status) != 5)
        return 1;
    if (system("exit 6") != 6 << 8)
        return 2;
    free((void *)p);
    return 0;
}

static int do_kernel(void)
{
    char *p = malloc(60001), *name = malloc(60003);
    strcpy(name, "/proc/self/comm");
    int fd = open(name, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, p + 100, 50000);
    if (n <= 0 || write(STDOUT_FILENO, p + 100, (size_t)n) != n)
        return 1;
    close(fd);
    free(p);
    free(name);
    return 0;
}

static int do_wait(const char *path)
{
    while (access(path, F_OK) != 0) {
        volatile char *p = malloc(60001);
        p[0] = 1;
        free((void *)p);
        usleep(1000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "switch") == 0)
        return do_switch();
    if (argc > 1 && strcmp(argv[1], "fork") == 0)
        return do_fork();
    if (argc > 1 && strcmp(argv[1], "kernel") == 0)
        return do_kernel();
    if (argc > 2 && strcmp(argv[1], "wait") == 0)
        return do_wait(argv[2]);
    fprintf(stderr, "usage: requests switch|fork|kernel|wait FILE\n");
    return 99;
}
