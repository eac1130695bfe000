/* addresses.c - make a memtrace whose stacks are given code addresses of one object file.
 *
 *     addresses OUT OBJECT BUILD-ID <ADDRESSES
 *
 * Standard input has one address on each line, in hexadecimal, as in the ELF headers of the file. A block is made and
 * freed for each, with the address as the only frame of its stack. For the benchmark of `steve symbolize`.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memtrace/memtrace.h"

static void put_module(struct mt_writer *w, uint32_t object, const char *build_id)
{
    struct mt_module m = {.start = 0, .size = UINT64_C(1) << 40, .object = object};
    unsigned byte;
    for (; m.build_id_size < MT_BUILD_ID_MOST && sscanf(build_id, "%2x", &byte) == 1; build_id += 2)
        m.build_id[m.build_id_size++] = (uint8_t)byte;
    mt_writer_module(w, &m);
}

static void put_block(struct mt_writer *w, uint32_t object, uint64_t address)
{
    const struct mt_frame frame = {.ip = address, .object = object};
    const uint32_t stack = mt_writer_stack(w, 0, mt_writer_frame(w, &frame));
    mt_writer_block_new(w, 0x10000, 16, 0, MT_HOW_MALLOC, stack);
    mt_writer_block_free(w, 0x10000, 0, stack);
}

int main(int argc, char **argv)
{
    struct mt_error err;
    uint64_t address;
    const int fd = argc == 4 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    struct mt_writer *w = fd < 0 ? NULL : mt_writer_new(fd, NULL, &err);
    if (!w) {
        fputs("usage: addresses OUT OBJECT BUILD-ID <ADDRESSES\n", stderr);
        return 2;
    }
    const uint32_t object = mt_writer_string(w, argv[2], strlen(argv[2]));
    put_module(w, object, argv[3]);
    while (scanf("%lx", &address) == 1)
        put_block(w, object, address);
    if (mt_writer_finish(w, MT_ENDING_EXIT, &err) != MT_ERROR && close(fd) == 0)
        return 0;
    fprintf(stderr, "addresses: %s\n", err.text);
    return 1;
}
