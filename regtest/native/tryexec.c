/* tryexec.c - execute files until one can be executed, and say why the others cannot.
 *
 *     tryexec COUNT SIZE FILE...
 *
 * Each file is given COUNT arguments of SIZE bytes. A line for each exec that fails; after it, the program
 * must be able to go on as before: it opens a file, and its limit of descriptors is what it was.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static char **make_arguments(size_t count, size_t size)
{
    char **arguments = calloc(count + 2, sizeof *arguments);
    char *text = malloc(size + 1);
    if (!arguments || !text)
        exit(2);
    memset(text, 'a', size);
    text[size] = 0;
    for (size_t i = 1; i <= count; i++)
        arguments[i] = text;
    return arguments;
}

static rlim_t descriptors(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

static void try_file(char *path, char **arguments)
{
    rlim_t before = descriptors();
    arguments[0] = path;
    execve(path, arguments, environ);
    printf("%s: %s\n", path, strerror(errno));
    int fd = open("/dev/null", O_RDONLY);
    if (fd < 0 || descriptors() != before)
        printf("the failed exec has left its mark: %s\n", strerror(errno));
    close(fd);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return fputs("usage: tryexec COUNT SIZE FILE...\n", stderr), 2;
    char **arguments = make_arguments(strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10));
    for (int i = 3; i < argc; i++)
        try_file(argv[i], arguments);
    free(arguments[1]);
    free(arguments);
    return 3;
}
