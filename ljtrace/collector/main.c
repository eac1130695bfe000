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
#include "ljtrace/collector/feed.h"
#include "ljtrace/collector/keep.h"
#include "ljtrace/collector/sink.h"
#include "ljtrace/protocol/ring.h"
#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Events in a chunk when text is made from it: few, so that it comes soon. */
enum { TEXT_CHUNK_EVENTS = 4096 };

/* Bytes that malloc takes from its heap (the most that there is), keeps when they are free, and has at once.
 */
enum { HEAP_BLOCK = 32 << 20, HEAP_KEPT = 64 << 20, HEAP_READY = 24 << 20 };

struct settings {
    int level;
    bool text;
    bool freed;        /* freed blocks are remembered */
    uint32_t beside;   /* accesses so many bytes from a block are errors, 0 = none are */
    uint64_t max_size; /* bytes, 0 = any */
    bool keep_last;    /* of a limited file, keep the last part */
};

struct collector {
    int socket;
    struct sink sink;
    const char *name;
    char process[64]; /* "PID@START" of the traced process */
    struct ring_header *ring; /* of it only `full` is written here */
    struct mt_writer *writer;
    struct feed *feed;
    struct settings settings;
    struct keep keep;
    uint32_t begun;        /* slab whose first bytes were fed before it was full; RING_SLABS = none is */
    uint64_t begun_bytes;  /* how many */
    struct timespec wrote; /* when all so far was last in the file */
    uint32_t last_slab;    /* given to us by a token; RING_SLABS = none yet */
    bool forked;           /* this collector belongs to a forked child */
};

/* Last words: the tool shows them to the user. */
static void tell(const struct collector *c, const char *what, const char *why)
{
    char text[400];
    int n = snprintf(text, sizeof text, "%s %s: %s", what, c->name, why);
    if (n > 0 && send(c->socket, text, strlen(text), MSG_NOSIGNAL) < 0)
        return; /* nobody listens any more */
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Close all descriptors but these; equal ones count once. */
static void close_others(int *keep, size_t n)
{
    unsigned from = 0;
    qsort(keep, n, sizeof *keep, compare);
    for (size_t i = 0; i < n; i++) {
        if ((unsigned)keep[i] > from)
            close_range(from, (unsigned)keep[i] - 1, 0);
        from = (unsigned)keep[i] + 1;
    }
    close_range(from, ~0U, 0);
}

/* All descriptors but our own and those that the output needs: a command may write to the terminal. */
static void close_all_but(const struct collector *c, int ring)
{
    int keep[5] = {ring, c->socket};
    size_t n = 2;
    if (c->name[0] == '|' || strcmp(c->name, "-") == 0) {
        keep[n++] = STDOUT_FILENO;
        keep[n++] = STDERR_FILENO;
    }
    if (sink_descriptor(c->name) >= 0)
        keep[n++] = sink_descriptor(c->name);
    close_others(keep, n);
}

static int option(int argc, char **argv, const char *name, const char **value)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], name) == 0)
            return *value = argv[i + 1], 1;
    return 0;
}

/* The slabs can only be read. */
static struct ring_header *map_ring(int fd)
{
    struct ring_header *ring = mmap(NULL, RING_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (ring == MAP_FAILED || ring->magic != RING_MAGIC || ring->version != RING_VERSION ||
        mprotect(ring, RING_HEADER_BYTES, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    return ring;
}

static const uint8_t *slab_bytes(const struct collector *c, uint32_t slab)
{
    return ((const uint8_t *)c->ring + RING_HEADER_BYTES + (uint64_t)slab * RING_SLAB_BYTES);
}

static struct mt_writer_options writer_options(const struct collector *c)
{
    /* text is read while it is made; the size of a part must be known when it is to end */
    return (struct mt_writer_options){.level = c->settings.level,
                                      .forget_freed = !c->settings.freed,
                                      .beside = c->settings.beside,
                                      .background = !c->settings.text && !c->settings.keep_last,
                                      .chunk_events = c->settings.text ? TEXT_CHUNK_EVENTS : 0};
}

static const char *begin_part(struct collector *c)
{
    const struct mt_writer_options options = writer_options(c);
    const char *wrong = keep_begin_part(&c->keep, &c->sink, &c->writer, &options, c->process);
    feed_rebind(c->feed, c->writer);
    return wrong;
}

/* Feed a slab's first bytes, as far as they were not fed already. False: the recording can not go on. */
static int consume(struct collector *c, uint32_t slab, uint64_t bytes)
{
    const char *wrong = "token out of range";
    const uint64_t fed = slab == c->begun ? c->begun_bytes : 0;
    if (slab < RING_SLABS && bytes <= RING_SLAB_BYTES && fed <= bytes)
        wrong = feed_slab(c->feed, slab_bytes(c, slab) + fed, bytes - fed);
    /* what could not be written the feed may miss: first things first */
    if (mt_writer_error(c->writer)->code != MT_E_NONE)
        wrong = mt_writer_error(c->writer)->text;
    if (!wrong && keep_is_due(&c->keep, c->writer))
        wrong = begin_part(c);
    if (wrong)
        tell(c, "cannot write", wrong);
    if (mt_writer_limited(c->writer))
        c->ring->full = 1;
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

static int say(const struct collector *c, char what)
{
    return send(c->socket, &what, 1, MSG_NOSIGNAL) == 1;
}

static int serve(struct collector *c);

/* The process and the file of a forked child: "PID:NAME". False if there is no child (the fork failed). */
static bool receive_name(struct collector *c)
{
    struct ring_token token;
    char *name, *end;
    if (!receive(c->socket, &token, sizeof token, NULL) || token.slab != RING_FORK)
        return false;
    name = calloc(1, (size_t)token.bytes + 1);
    if (!name || !receive(c->socket, name, token.bytes, NULL))
        return false;
    if (!sink_process((int)strtol(name, &end, 10), c->process, sizeof c->process))
        c->process[0] = 0;
    c->name = *end ? end + 1 : end;
    return true;
}

/* The first thing in a file is whose it is, for the next image of the process (RING_TAKEN). */
static void begin_writing(struct collector *c)
{
    if (c->process[0])
        mt_writer_info(c->writer, "process", c->process);
    if (c->settings.keep_last)
        c->keep = keep_for(c->settings.max_size);
    else if (c->settings.max_size)
        mt_writer_limit(c->writer, c->settings.max_size, "--max-size");
    mt_writer_flush(c->writer);
}

static bool open_sink(struct collector *c, bool draft)
{
    bool ours = sink_descriptor(c->name) == c->socket; /* which the program does not have */
    if (!ours && sink_open(&c->sink, c->name, c->settings.text, draft, c->process)) {
        if (!c->settings.keep_last || sink_is_replaceable(&c->sink))
            return true;
        tell(c, "cannot write", "--keep=last needs a file");
        return false;
    }
    errno = ours ? EBADF : errno;
    if (errno == EWOULDBLOCK)
        say(c, RING_BUSY);
    else
        tell(c, "cannot write", strerror(errno));
    return false;
}

/* In a fork of the collector: leave the parent's ring and file alone and become the child's collector. The
 * file is a draft until the child is seen to be more than the way to another program. */
static int become_childs(struct collector *c, const int fds[2])
{
    const struct mt_writer_options options = writer_options(c);
    struct mt_error err = {0};
    close(c->socket);
    sink_leave(&c->sink);
    munmap(c->ring, RING_BYTES);
    c->socket = fds[1];
    c->ring = receive_name(c) ? map_ring(fds[0]) : NULL;
    if (!c->ring || !open_sink(c, true))
        return 1;
    c->writer = mt_writer_fork(c->writer, c->sink.fd, &options, &err);
    if (!c->writer) {
        tell(c, "cannot write", err.text);
        sink_discard(&c->sink);
        return 1;
    }
    feed_rebind(c->feed, c->writer);
    begin_writing(c);
    c->last_slab = c->begun = RING_SLABS;
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

/* Answer the tool's question about the state of things. */
static void report(const struct collector *c)
{
    struct mt_totals t;
    char text[200];
    uint64_t events = 0;
    mt_writer_totals(c->writer, &t);
    for (int kind = 0; kind < MT_KINDS; kind++)
        events += t.events[kind];
    int n = snprintf(
        text, sizeof text, "%c%" PRIu64 " events, %" PRIu64 " live blocks, %" PRIu64 " bytes written%c",
        RING_REPORT, events, t.events[MT_NEW] - t.events[MT_FREE], mt_writer_bytes(c->writer), RING_REPORT);
    if (send(c->socket, text, (size_t)n, MSG_NOSIGNAL) < 0)
        return; /* the tool is gone: then the next token tells */
}

static void fulfil_wish(struct collector *c)
{
    enum feed_wish wish = feed_take_wish(c->feed);
    if (wish == FEED_SNAPSHOT || c->settings.text)
        mt_writer_flush(c->writer);
    if (wish != FEED_NONE)
        report(c);
}

/* -- what is in the file while the program runs --
 *
 * When a control group runs out of memory, the kernel kills all its processes at once: the program, and the collector with
 * what it holds. So that little is lost, all that the ring holds goes to the file once a second. */

enum { FLUSH_MILLISECONDS = 800 };

/* Milliseconds until it is time to write; 0 = now. */
static int until_writing(const struct collector *c)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t passed =
        (int64_t)(now.tv_sec - c->wrote.tv_sec) * 1000 + (now.tv_nsec - c->wrote.tv_nsec) / 1000000;
    return passed < FLUSH_MILLISECONDS ? (int)(FLUSH_MILLISECONDS - passed) : 0;
}

static bool has_token(const struct collector *c, int milliseconds)
{
    struct pollfd socket = {.fd = c->socket, .events = POLLIN};
    return poll(&socket, 1, milliseconds) != 0;
}

/* How many bytes of the slab being written are there to stay. What is read is no later than any token that is not seen
 * afterwards: else a fork could lie in between. If the cursor was moved back meanwhile, what was read of it may be from
 * before, and `held` from after: they are read again. */
static uint64_t settled_bytes(const struct collector *c, uint32_t *slab)
{
    const volatile struct ring_header *ring = c->ring;
    uint64_t cursor, held, rewinds;
    do {
        rewinds = ring->rewinds;
        *slab = ring->current;
        cursor = ring->cursor;
        held = ring->held;
    } while (rewinds != ring->rewinds);
    const uint64_t start = ring->slabs + (uint64_t)*slab * RING_SLAB_BYTES;
    if (held && (held < start || held > cursor))
        return 0; /* some may be taken back, and it is not known which */
    cursor = held ? held : cursor;
    bool same = *slab == ring->current && cursor >= start && cursor <= start + RING_SLAB_BYTES;
    return same && *slab != c->last_slab && !has_token(c, 0) ? cursor - start : 0;
}

/* Feed what there is of the slab being written, and write all so far to the file. False as of consume. */
static int write_so_far(struct collector *c)
{
    uint32_t slab;
    uint64_t bytes = settled_bytes(c, &slab), fed = slab == c->begun ? c->begun_bytes : 0;
    if (bytes > fed) {
        if (!consume(c, slab, bytes))
            return 0;
        c->begun = slab;
        c->begun_bytes = bytes;
    }
    if (!mt_writer_limited(c->writer))
        mt_writer_flush(c->writer);
    clock_gettime(CLOCK_MONOTONIC, &c->wrote);
    return 1;
}

static int collect(struct collector *c)
{
    struct ring_token token;
    int fds[2] = {-1, -1};
    clock_gettime(CLOCK_MONOTONIC, &c->wrote);
    for (;;) {
        const int wait = until_writing(c);
        if (wait == 0 || !has_token(c, wait)) {
            if (!write_so_far(c))
                return 0;
            continue;
        }
        if (!receive(c->socket, &token, sizeof token, fds))
            break;
        sink_reap(&c->sink);
        if (token.slab == RING_FORK) {
            follow_fork(c, fds);
            fds[0] = fds[1] = -1;
            continue;
        }
        if (!consume(c, token.slab, token.bytes))
            return 0;
        c->last_slab = token.slab;
        c->begun = RING_SLABS;
        say(c, RING_SLAB_FREE); /* the tool may be gone: then the next token tells */
        fulfil_wish(c);
        if (feed_ended(c->feed))
            return 1;
        sink_publish(&c->sink, c->process);
    }
    return consume_tail(c);
}

static void tell_limit(const struct collector *c, uint64_t dropped)
{
    char text[100];
    snprintf(text, sizeof text, "--max-size was reached: at least %" PRIu64 " events were dropped", dropped);
    tell(c, "written", text);
}

/* End the file, and see that those who read it are content. */
static const char *end_file(struct collector *c, enum mt_ending ending, struct mt_error *err)
{
    bool written = mt_writer_finish(c->writer, ending, err) != MT_ERROR;
    bool removed = sink_is_removed(&c->sink);
    const char *wrong = sink_close(&c->sink);
    if (!written)
        return err->text;
    return removed ? "the file was removed while it was written" : wrong;
}

/* A line that the tool shows when the recording ends, which it does not call a failure. */
static void note(const struct collector *c, const char *text)
{
    char bytes[1000];
    int n = snprintf(bytes, sizeof bytes, "%c%s", RING_NOTE, text);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof bytes - 1 ? (size_t)n : sizeof bytes - 2;
    bytes[size++] = RING_NOTE;
    if (send(c->socket, bytes, size, MSG_NOSIGNAL) < 0)
        return; /* nobody listens any more */
}

/* Tell the user, and whoever reads the file, which source lines are missing. */
static void note_missing_lines(struct collector *c)
{
    char text[900];
    if (!feed_missing_lines(c->feed, text, sizeof text))
        return;
    mt_writer_info(c->writer, "missing_lines", text);
    note(c, text);
}

static void note_parts(const struct collector *c)
{
    char text[900];
    if (keep_summary(&c->keep, &c->sink, c->writer, text, sizeof text))
        note(c, text);
}

/* Put the end on the file, whatever happened before. A child that was forked only to run another program is
 * not worth a file. */
static int finish(struct collector *c, int complete)
{
    struct mt_error err = {0};
    if (!feed_ended(c->feed))
        feed_time(c->feed, c->ring->instructions);
    uint64_t dropped = mt_writer_limited(c->writer);
    enum mt_ending ending = dropped ? MT_ENDING_LIMIT : feed_ending(c->feed);
    if (c->sink.draft && ending == MT_ENDING_EXEC)
        sink_discard(&c->sink);
    else
        sink_publish(&c->sink, c->process);
    note_missing_lines(c);
    note_parts(c);
    const char *wrong = end_file(c, ending, &err);
    if (complete && wrong)
        tell(c, "cannot write", wrong);
    else if (complete && dropped)
        tell_limit(c, dropped);
    shutdown(c->socket, SHUT_RDWR); /* the tool need not wait until all memory is given back */
    feed_free(c->feed);
    return complete && !wrong;
}

/* Have memory that need not be asked for page by page. Large blocks would be mappings of their own, which are
 * given back as soon as they are free, and whose pages, made anew, took a tenth of the coder's time on
 * machines where that is slow. While the traced program starts there is time for the first pages. */
static void prepare_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
    void *block = malloc(HEAP_READY);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)block & ~(page - 1);
    if (block && prctl(PR_GET_SECCOMP) == 0) /* a filter that is inherited may kill for it */
        madvise((void *)first, HEAP_READY, MADV_POPULATE_WRITE);
    free(block);
}

static int serve(struct collector *c)
{
    say(c, RING_READY); /* the tool may be gone already: then the file ends here, but it ends */
    if (!c->forked)
        prepare_memory();
    return finish(c, collect(c));
}

static int run(struct collector *c)
{
    const struct mt_writer_options options = writer_options(c);
    struct mt_error err = {0};
    if (c->process[0] && sink_is_of(c->name, c->process))
        return say(c, RING_TAKEN) ? 0 : 1;
    if (!open_sink(c, false))
        return 1;
    c->writer = mt_writer_new(c->sink.fd, &options, &err);
    if (!c->writer) {
        tell(c, "cannot write", err.text);
        return 1;
    }
    c->feed = feed_new(c->writer);
    begin_writing(c);
    return serve(c) ? 0 : 1;
}

/* `name value` pairs, all of them needed. */
static bool parse(struct collector *c, int argc, char **argv, int *ring)
{
    static const char *const names[] = {"--ring", "--socket",   "--level", "--out",    "--pid",
                                        "--text", "--max-size", "--freed", "--beside", "--keep"};
    enum { NAMES = sizeof names / sizeof *names };
    const char *value[NAMES];
    for (int i = 0; i < NAMES; i++)
        if (!option(argc, argv, names[i], &value[i]))
            return false;
    *ring = atoi(value[0]);
    c->socket = atoi(value[1]);
    c->settings = (struct settings){.level = atoi(value[2]),
                                    .text = atoi(value[5]) != 0,
                                    .freed = atoi(value[7]) != 0,
                                    .beside = (uint32_t)atoi(value[8]),
                                    .keep_last = strcmp(value[9], "last") == 0,
                                    .max_size = strtoull(value[6], NULL, 10)};
    c->name = value[3];
    if (!sink_process(atoi(value[4]), c->process, sizeof c->process))
        c->process[0] = 0;
    return true;
}

int main(int argc, char **argv)
{
    struct collector c = {.last_slab = RING_SLABS, .begun = RING_SLABS};
    int ring;
    if (!parse(&c, argc, argv, &ring)) {
        fprintf(stderr, "ljtrace-collector is run by valgrind --tool=ljtrace, not by hand\n");
        return 2;
    }
    close_all_but(&c, ring);
    while (open("/dev/null", O_RDWR) >= 0 && fcntl(STDERR_FILENO, F_GETFD) < 0)
        ; /* whatever is opened from here on is none of the three */
    fcntl(c.socket, F_SETFD, FD_CLOEXEC);
    c.ring = map_ring(ring);
    if (!c.ring) {
        tell(&c, "cannot record to", "the tool and the collector are of different versions");
        return 1;
    }
    return run(&c);
}
