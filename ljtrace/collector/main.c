/* main.c - ljtrace-collector: empties the tool's ring into a memtrace file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Started by the tool, never by hand. It holds no descriptor of the traced program's: all but the ring, the
 * socket and the output are closed at once, so that pipes of the program end when the program does. When the
 * socket ends without a last word the tool was killed: what it wrote up to its cursor is in the shared
 * memory, and goes into the file. When the file can not be written any more, the tool is told why and the
 * collector ends.
 */
#define _GNU_SOURCE
#include "feed.h"
#include "ljtrace/ring.h"
#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct collector {
    int socket;
    int out;
    const char *name;
    const struct ring_header *ring;
    struct mt_writer *writer;
    struct feed *feed;
    int level;
    uint32_t last_slab; /* given to us by a token; RING_SLABS = none yet */
    bool forked;        /* this collector belongs to a forked child */
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

/* Receive `size` bytes and, if some come along, two descriptors. 0 = the tool is gone. */
static int receive(int socket, void *to, size_t size, int fds[2])
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    for (size_t have = 0; have < size;) {
        struct iovec part = {(char *)to + have, size - have};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control};
        ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        have += (size_t)n;
        const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        if (fds && c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
            memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
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

static int open_file(struct collector *c)
{
    c->out = open(c->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (c->out < 0)
        tell(c, "cannot write", strerror(errno));
    return c->out >= 0;
}

static int say(const struct collector *c, char what)
{
    return send(c->socket, &what, 1, MSG_NOSIGNAL) == 1;
}

static int serve(struct collector *c);

/* The name of a forked child's file, or NULL if there is no child (the fork failed). */
static char *receive_name(int socket)
{
    struct ring_token token;
    if (!receive(socket, &token, sizeof token, NULL) || token.slab != RING_FORK)
        return NULL;
    char *name = calloc(1, (size_t)token.bytes + 1);
    if (!name || !receive(socket, name, token.bytes, NULL))
        return NULL;
    return name;
}

/* In a fork of the collector: leave the parent's ring and file alone and become the child's collector. */
static int become_childs(struct collector *c, const int fds[2])
{
    const struct mt_writer_options options = {.level = c->level};
    struct mt_error err = {0};
    close(c->socket);
    close(c->out);
    munmap((void *)c->ring, RING_BYTES);
    c->socket = fds[1];
    c->name = receive_name(c->socket);
    c->ring = c->name ? map_ring(fds[0]) : NULL;
    if (!c->ring || !open_file(c))
        return 1;
    c->writer = mt_writer_fork(c->writer, c->out, &options, &err);
    if (!c->writer) {
        tell(c, "cannot write", err.text);
        return 1;
    }
    feed_rebind(c->feed, c->writer);
    c->last_slab = RING_SLABS;
    c->forked = true;
    return serve(c) ? 0 : 1;
}

static void follow_fork(struct collector *c, const int fds[2])
{
    if (fds[0] < 0 || fds[1] < 0)
        return;
    mt_writer_flush(c->writer);
    if (fork() == 0)
        _exit(become_childs(c, fds));
    close(fds[0]);
    close(fds[1]);
}

static int collect(struct collector *c)
{
    struct ring_token token;
    int fds[2] = {-1, -1};
    while (receive(c->socket, &token, sizeof token, fds)) {
        if (token.slab == RING_FORK) {
            follow_fork(c, fds);
            fds[0] = fds[1] = -1;
            continue;
        }
        if (!consume(c, token.slab, token.bytes))
            return 0;
        c->last_slab = token.slab;
        say(c, RING_SLAB_FREE); /* the tool may be gone: then the next token tells */
        if (feed_ended(c->feed))
            return 1;
    }
    return consume_tail(c);
}

/* Nobody will find what was written into a file without a name. */
static int is_removed(const struct collector *c)
{
    struct stat st;
    return fstat(c->out, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
}

/* Put the end on the file, whatever happened before. A child that was forked only to run another program is
 * not worth a file. */
static int finish(struct collector *c, int complete)
{
    struct mt_error err = {0};
    if (!feed_ended(c->feed))
        feed_time(c->feed, c->ring->instructions);
    enum mt_ending ending = feed_ending(c->feed);
    int result = mt_writer_finish(c->writer, ending, &err);
    if (c->forked && ending == MT_ENDING_EXEC && c->last_slab == RING_SLABS)
        unlink(c->name);
    else if (complete && result == MT_ERROR)
        tell(c, "cannot write", err.text);
    else if (complete && is_removed(c))
        tell(c, "lost", "the file was removed while it was written");
    feed_free(c->feed);
    return complete && result != MT_ERROR;
}

static int serve(struct collector *c)
{
    if (!say(c, RING_READY))
        return 0;
    return finish(c, collect(c));
}

static int run(struct collector *c)
{
    const struct mt_writer_options options = {.level = c->level};
    struct mt_error err = {0};
    if (!open_file(c))
        return 1;
    c->writer = mt_writer_new(c->out, &options, &err);
    if (!c->writer) {
        tell(c, "cannot write", err.text);
        return 1;
    }
    c->feed = feed_new(c->writer);
    return serve(c) ? 0 : 1;
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
    c.level = atoi(level);
    return run(&c);
}
