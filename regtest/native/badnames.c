/* badnames.c - names at addresses where no text is, or one that ends nowhere, in system calls and requests.
 *
 * The kernel refuses such names and a request means nothing outside of Valgrind: the program goes on.
 * It prints the kernel's result of each, and ends with status 7.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, ROOM = 60007 };

/* A text whose end would be in the next page, which does not exist. */
static char *endless_text(void)
{
    char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || munmap(page + PAGE, PAGE) != 0)
        exit(1);
    memset(page, 'a', PAGE);
    return page + PAGE - 100;
}

static void name_all(const char *name)
{
    int fd = open(name, O_RDONLY);
    printf("open %d", errno);
    fd = access(name, R_OK) + fd;
    printf(" access %d", errno);
    fd = unlink(name) + fd;
    printf(" unlink %d: %d\n", errno, fd);
    LJTRACE_MARK(name);
    LJTRACE_SNAPSHOT_NAMED(name);
    LJTRACE_POOL_CREATE(name, name);
    LJTRACE_POOL_DESTROY(name);
}

int main(void)
{
    char *volatile block = malloc(ROOM);
    name_all(NULL);
    name_all((const char *)16);
    name_all(endless_text());
    free(block);
    return 7;
}
