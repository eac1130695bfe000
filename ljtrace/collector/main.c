/* main.c - ljtrace-collector: empties the tool's ring into a memtrace file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Started by the tool, never by hand. It holds no descriptor of the traced program's: all but the ring, the socket
 * and the output are closed at once, so that pipes of the program end when the program does. When the socket
 * ends without a last word the tool was killed: what it wrote up to its cursor is in the shared memory, and
 * goes into the file. When the file can not be written any more, the tool is told why and the collector ends.
 */
#define _GNU_SOURCE
#include "feed.h"
#include "ljtrace/ring.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct collector {
    int socket;
    int out;
    const char *name;
    const struct ring_header *ring;
    struct mt_writer *writer;
    struct feed *feed;
    uint32_t last_slab; /* given to us by a token; RING_SLABS = none yet */
};

/* Last words: the tool shows them to the user. */
static void tell(const struct collector *c, const char *what, const char *why)
{
    char text[400];
    int n = snprintf(text, sizeof text, "%s %s: %s", what, c->name, why);
    if (n > 0 && send(c->socket, text, strlen(text), MSG_NOSIGNAL) < 0)
        return; /* nobody listens any more */
}

static void close_others(int keep1, int keep2)
{
    int low = keep1 < keep2 ? keep1 : keep2, high = keep1 < keep2 ? keep2 : keep1;
    if (low > 0)
        close_range(0, (unsigned)low - 1, 0);
    if (high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);
    close_range((unsigned)high + 1, ~0U, 0);
}

static int option(int argc, char **argv, const char *name, const char **value)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0)
            return *value = argv[i + 1], 1;
    return 0;
}

static const struct ring_header *map_ring(int fd)
{
    const struct ring_header *ring = mmap(NULL, RING_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (ring == MAP_FAILED || ring->magic != RING_MAGIC || ring->version != RING_VERSION)
        return NULL;
    return ring;
}

static const uint64_t *slab_words(const struct collector *c, uint32_t slab)
{
    return (const uint64_t *)((const char *)c->ring + RING_HEADER_BYTES + (uint64_t)slab * RING_SLAB_BYTES);
}

/* Feed a slab's first bytes. False: the recording can not go on. */
static int consume(struct collector *c, uint32_t slab, uint64_t bytes)
{
    const char *wrong = "token out of range";
    if (slab < RING_SLABS && bytes <= RING_SLAB_BYTES)
        wrong = feed_slab(c->feed, slab_words(c, slab), bytes / sizeof(uint64_t));
    if (!wrong && mt_writer_error(c->writer)->code != MT_E_NONE)
        wrong = mt_writer_error(c->writer)->text;
    if (wrong)
        tell(c, "cannot write", wrong);
    return !wrong;
}

/* 1 = a token, 0 = the tool is gone. */
static int next_token(const struct collector *c, struct ring_token *token)
{
    size_t have = 0;
    while (have < sizeof *token) {
        ssize_t n = recv(c->socket, (char *)token + have, sizeof *token - have, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        have += (size_t)n;
    }
    return 1;
}

/* The slab that was being written when the tool vanished, up to the cursor. A cursor outside the current slab
 * means that the tool was just changing slabs and the new one is empty. */
static int consume_tail(struct collector *c)
{
    uint32_t slab = c->ring->current;
    uint64_t start = c->ring->slabs + (uint64_t)slab * RING_SLAB_BYTES;
    uint64_t cursor = c->ring->cursor;
    if (slab == c->last_slab || cursor < start || cursor > start + RING_SLAB_BYTES)
        return 1;
    return consume(c, slab, cursor - start);
}

static int collect(struct collector *c)
{
    static const char give_back = RING_SLAB_FREE;
    struct ring_token token;
    while (next_token(c, &token)) {
        if (!consume(c, token.slab, token.bytes))
            return 0;
        c->last_slab = token.slab;
        /* the tool may be gone: then the next token tells */
        (void)!send(c->socket, &give_back, 1, MSG_NOSIGNAL);
        if (feed_ended(c->feed))
            return 1;
    }
    return consume_tail(c);
}

static int open_output(struct collector *c, int level)
{
    struct mt_error err = {0};
    struct mt_writer_options options = {.level = level};
    c->out = open(c->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (c->out < 0) {
        tell(c, "cannot write", strerror(errno));
        return 0;
    }
    c->writer = mt_writer_new(c->out, &options, &err);
    if (!c->writer)
        tell(c, "cannot write", err.text);
    return c->writer != NULL;
}

/* Put the end on the file, whatever happened before. */
static int finish(struct collector *c, int complete)
{
    struct mt_error err = {0};
    if (!feed_ended(c->feed))
        feed_time(c->feed, c->ring->instructions);
    int result = mt_writer_finish(c->writer, feed_ending(c->feed), &err);
    if (complete && result == MT_ERROR)
        tell(c, "cannot write", err.text);
    feed_free(c->feed);
    return complete && result != MT_ERROR;
}

static int run(struct collector *c, int level)
{
    static const char ready = RING_READY;
    if (!open_output(c, level) || send(c->socket, &ready, 1, MSG_NOSIGNAL) != 1)
        return 1;
    c->feed = feed_new(c->writer);
    int complete = collect(c);
    return finish(c, complete) ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *ring, *socket, *level;
    struct collector c = {.last_slab = RING_SLABS};
    if (!option(argc, argv, "--ring", &ring) || !option(argc, argv, "--socket", &socket) ||
        !option(argc, argv, "--level", &level) || !option(argc, argv, "--out", &c.name)) {
        fprintf(stderr, "ljtrace-collector is run by valgrind --tool=ljtrace, not by hand\n");
        return 2;
    }
    c.socket = atoi(socket);
    close_others(atoi(ring), c.socket);
    c.ring = map_ring(atoi(ring));
    if (!c.ring) {
        tell(&c, "cannot record to", "the tool and the collector are of different versions");
        return 1;
    }
    return run(&c, atoi(level));
}
