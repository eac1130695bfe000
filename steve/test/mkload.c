/* mkload.c - make a memtrace for the speed tests, of a given size and with a given number of live blocks.
 *
 *     mkload OUT EVENTS LIVE [CHUNK]
 *
 * First, LIVE blocks are made. Then, repeatedly, a block is freed, another is made in its place, and one of four
 * paths is executed. A path has five segments with three accesses each: two to fields of the block, one to another
 * block, to another field, or to a stack, which is not recorded. So 14 of 16 operations are accesses. They are about
 * as regular as those of real programs: the coder predicts most segments and addresses, but neither the path nor the
 * other block. Blocks have 16 to 512 bytes, 64 stacks and 2 threads. Equal arguments give equal files. With CHUNK,
 * a chunk has so many events, and reading can begin at every second chunk. Not installed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "memtrace/memtrace.h"

#define STACKS 64
#define PLACES 20 /* functions that use blocks, each a segment */
#define PATHS 4
#define PATH (PLACES / PATHS) /* segments */
#define CELL 512              /* every block begins at a multiple of this */
#define BASE 0x10000u
#define STACK 0x7fff00000000u

static struct mt_writer *s_writer;
static uint32_t s_stacks[STACKS], s_sites[3][PLACES];
static uint64_t s_random = 1;

/* A number below n, from a linear congruential generator (Knuth's MMIX). */
static uint64_t below(uint64_t n)
{
    s_random = s_random * 6364136223846793005u + 1442695040888963407u;
    return (s_random >> 33) % n;
}

static uint32_t frame(const char *prefix, unsigned i)
{
    char name[32];
    struct mt_frame f = {.ip = 0x400000 + 64 * i, .line = i + 1};
    int n = snprintf(name, sizeof name, "%s%u", prefix, i);

    f.function = mt_writer_string(s_writer, name, (size_t)n);
    f.file = mt_writer_string(s_writer, "load.c", 6);
    return mt_writer_frame(s_writer, &f);
}

/* The segment of a function: load, store and modify fields of a block; the third may be in another block. */
static void define_segment(unsigned place)
{
    const struct mt_access accesses[] = {
        {s_sites[0][place], 0, 0}, {s_sites[1 + place % 2][place], 0, 8}, {s_sites[place % 3][place], 1, 0}};
    const struct mt_segment segment = {accesses, 3, 2, 10};

    mt_writer_segment(s_writer, &segment);
}

static void define(void)
{
    uint32_t root = mt_writer_stack(s_writer, 0, frame("main", 0));

    for (unsigned i = 0; i < STACKS; i++)
        s_stacks[i] = mt_writer_stack(s_writer, root, frame("make", i));
    for (unsigned i = 0; i < PLACES; i++) {
        uint32_t place = frame("use", i);

        for (unsigned kind = 0; kind < 3; kind++) {
            struct mt_site site = {
                .ip = 0x500000 + 64 * i + 8 * kind, .frame = place, .size = 8, .kind = MT_LOAD + kind};

            s_sites[kind][i] = mt_writer_site(s_writer, &site);
        }
        define_segment(i);
    }
}

static void make(uint64_t block)
{
    mt_writer_block_new(s_writer, BASE + CELL * block, 16 + 8 * below(63), 0, MT_HOW_MALLOC,
                        s_stacks[below(STACKS)]);
}

/* Execute one path of the program on a block. */
static void use(uint64_t block, uint64_t live)
{
    uint8_t stream[PATH * (MT_STREAM_ID + 2 * MT_STREAM_WORD) + MT_STREAM_BEYOND], *p = stream;
    uint64_t path = below(PATHS), instructions = 0;

    for (unsigned i = 0; i < PATH; i++) {
        p = mt_stream_put_id(p, (uint32_t)path * PATH + i);
        p = mt_stream_put_word(p, BASE + CELL * block);
        p = mt_stream_put_word(p,
                               i == PATH - 1 ? STACK : BASE + CELL * (i ? block : below(live)) + 8 * (i % 2));
    }
    mt_writer_stream(s_writer, stream, (size_t)(p - stream), &instructions, NULL);
}

static void run(uint64_t events, uint64_t live)
{
    uint64_t block = 0;

    for (uint64_t i = 0; i < live; i++)
        make(i);
    for (uint64_t i = live; i < events; i += 16) {
        mt_writer_time(s_writer, 10 * i);
        mt_writer_thread(s_writer, (uint16_t)(1 + below(2)));
        block = below(live);
        mt_writer_block_free(s_writer, BASE + CELL * block, 0, s_stacks[0]);
        make(block);
        use(block, live);
    }
}

int main(int argc, char **argv)
{
    struct mt_error error;
    const struct mt_writer_options small = {
        .chunk_events = argc == 5 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0, .checkpoint_interval = 2};
    int fd = argc == 4 || argc == 5 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

    s_writer = fd < 0 ? NULL : mt_writer_new(fd, argc == 5 ? &small : NULL, &error);
    if (!s_writer) {
        fprintf(stderr, "usage: mkload OUT EVENTS LIVE [CHUNK]\n");
        return 2;
    }
    define();
    run(strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
    return mt_writer_finish(s_writer, MT_ENDING_EXIT, &error) == MT_ERROR;
}
