/* ending.c - ending PID VALUE: set the word `ending` in the header of a process's ring, and print the ring's cursor.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "ljtrace/protocol/ring.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* The address of the ring in the process; 0 = it has none. */
static uint64_t find_ring(const char *pid)
{
    char line[4096], path[64];
    uint64_t at = 0;
    snprintf(path, sizeof path, "/proc/%s/maps", pid);
    FILE *maps = fopen(path, "r");
    while (maps && !at && fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:ljtrace-ring"))
            at = strtoull(line, NULL, 16);
    if (maps)
        fclose(maps);
    return at;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const uint64_t ring = find_ring(argv[1]);
    uint32_t value = (uint32_t)atoi(argv[2]);
    uint64_t cursor = 0;
    struct iovec word = {&value, sizeof value},
                 there = {(void *)(ring + offsetof(struct ring_header, ending)), 4};
    if (!ring || process_vm_writev(atoi(argv[1]), &word, 1, &there, 1, 0) != sizeof value)
        return 1;
    word = (struct iovec){&cursor, sizeof cursor};
    there = (struct iovec){(void *)(ring + offsetof(struct ring_header, cursor)), sizeof cursor};
    if (process_vm_readv(atoi(argv[1]), &word, 1, &there, 1, 0) != sizeof cursor)
        return 1;
    printf("%" PRIu64 "\n", cursor);
    return 0;
}
