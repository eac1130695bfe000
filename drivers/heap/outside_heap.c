/* outside_heap.c - measures writable memory outside of the heap.
 *
 * /proc/self/maps is read without stdio, whose buffers would come from malloc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/outside_heap.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/heap/reservation.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

/* Number of bytes of [from, to) in the region. */
static uint64_t in_region(uintptr_t from, uintptr_t to)
{
    uintptr_t start = (uintptr_t)region_base(), end = start + region_reserved();
    from = from > start ? from : start;
    to = to < end ? to : end;
    return to > from ? to - from : 0;
}

/* Parse " rwxp offset device inode  name". True for private writable memory without a file, which includes the
 * data of a library that the C library loads when first needed, but no stack. */
static bool can_be_taken(const char *what)
{
    unsigned long inode;
    return sscanf(what, " rw%*cp %*s %*s %lu", &inode) == 1 && inode == 0 && !strstr(what, "[stack]");
}

/* Parse "from-to" and what can_be_taken parses. */
static uint64_t count_line(const char *line)
{
    char *at;
    uintptr_t from = strtoull(line, &at, 16), to = strtoull(at + (*at == '-'), &at, 16);
    if (!can_be_taken(at) || reservation_contains((void *)from))
        return 0;
    return to - from - in_region(from, to);
}

/* Count the complete lines in `text`, which ends with 0, and return the rest. */
static char *count_lines(char *text, uint64_t *sum)
{
    char *end;
    while ((end = strchr(text, '\n'))) {
        *end = 0;
        *sum += count_line(text);
        text = end + 1;
    }
    return text;
}

uint64_t outside_heap_bytes(void)
{
    static char buffer[BUFFER];
    uint64_t sum = 0;
    size_t left = 0;
    ssize_t n;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, buffer + left, BUFFER - 1 - left)) > 0) {
        buffer[left + (size_t)n] = 0;
        char *rest = count_lines(buffer, &sum);
        left = strlen(rest);
        memmove(buffer, rest, left + 1);
    }
    if (fd >= 0)
        close(fd);
    uint64_t own = raw_mapped() - region_reserved();
    return sum > own ? sum - own : 0;
}
