/* ring_tap.c - replaces the collector and stores the ring's bytes, for bench_ring.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector's speed is measured on recorded rings, so that the bytes are the same each time, Valgrind
 * does not run, and other programs may. The tool starts this program under the collector's name, which
 * record-ring arranges. It writes the number of bytes of each slab, and the bytes as they are in memory, to
 * the file of --out.
 *
 * It does not make a memtrace, does not follow forks (a forked child is not recorded), and does not answer
 * monitor commands. The file has all bytes written to the ring, about 0.6 GB for a second of recording.
 */
#include "ljtrace/protocol/ring.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct tap {
    const struct ring_header *ring;
    int socket, file;
    uint32_t last_slab; /* of the last token; RING_SLABS = none yet */
};

static bool say(const struct tap *t, char what)
{
    return send(t->socket, &what, 1, MSG_NOSIGNAL) == 1;
}

static bool write_all(int fd, const void *from, size_t size)
{
    for (const char *p = from; size;) {
        ssize_t n = write(fd, p, size);
        if (n <= 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static const uint8_t *slab_bytes(const struct tap *t, uint32_t slab)
{
    return (const uint8_t *)t->ring + RING_HEADER_BYTES + (uint64_t)slab * RING_SLAB_BYTES;
}

/* Write a slab to the file. On failure, send a message, which the tool shows to the user. */
static bool keep(const struct tap *t, uint32_t slab, uint64_t bytes)
{
    static const char complaint[] = "cannot write the ring: make room and record again";
    bool kept = slab < RING_SLABS && bytes <= RING_SLAB_BYTES && write_all(t->file, &bytes, sizeof bytes) &&
                write_all(t->file, slab_bytes(t, slab), bytes);
    if (!kept)
        send(t->socket, complaint, strlen(complaint), MSG_NOSIGNAL);
    return kept;
}

/* Does the slab end with the record RAW_END? The tool waits after it, so its counter still has the value that
 * is in the record. */
static bool is_end(const struct tap *t, uint32_t slab, uint64_t bytes)
{
    const raw_word *at = (const raw_word *)(slab_bytes(t, slab) + bytes) - 2;
    return bytes >= 2 * sizeof *at && !raw_is_segment(at) && raw_type_of(at[0]) == RAW_END &&
           raw_count_of(at[0]) == 1 && at[1] == t->ring->instructions;
}

/* Write the slab that was being written when the tool vanished. */
static bool keep_tail(const struct tap *t)
{
    uint64_t used = t->ring->cursor - t->ring->slabs - (uint64_t)t->ring->current * RING_SLAB_BYTES;
    return t->ring->current == t->last_slab || used > RING_SLAB_BYTES || keep(t, t->ring->current, used);
}

static bool serve(struct tap *t)
{
    struct ring_token token;
    while (recv(t->socket, &token, sizeof token, MSG_WAITALL) == sizeof token) {
        if (token.slab == RING_FORK)
            continue; /* the descriptors sent with it are closed, so the child is not recorded */
        if (!keep(t, token.slab, token.bytes))
            return false;
        t->last_slab = token.slab;
        say(t, RING_SLAB_FREE); /* if the tool is gone, there is no next token */
        if (is_end(t, token.slab, token.bytes))
            return true;
    }
    return keep_tail(t);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "ring_tap is run by ljtrace/bench/record-ring\n");
        return 2;
    }
    struct tap t = {.socket = atoi(argv[2]), .last_slab = RING_SLABS};
    t.ring = mmap(NULL, RING_BYTES, PROT_READ, MAP_SHARED, atoi(argv[1]), 0);
    t.file = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (t.ring == MAP_FAILED || t.ring->version != RING_VERSION || t.file < 0) {
        perror("ring_tap");
        return 1;
    }
    return say(&t, RING_READY) && serve(&t) ? 0 : 1;
}
