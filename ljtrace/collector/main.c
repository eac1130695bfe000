/* main.c - ljtrace-collector: reads the tool's ring and writes a memtrace file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool starts it; it is never run by hand. Here are its main loop, its conversation with the tool, and
 * its behaviour at forks and at the end. Decoding the records is the task of feed.c, opening the output that
 * of sink.c, looking at the program's pages that of looks.c, and saying what is missing that of remarks.c.
 *
 * The collector closes all descriptors that it inherits except the ring, the socket and the output, so that
 * the program's pipes end when the program does. If the socket closes before the record RAW_END, the tool was
 * killed. All that it wrote up to its cursor is in the shared memory and still goes into the file. If the
 * file can no longer be written, the collector reports the reason to the tool and ends.
 */
#define _GNU_SOURCE
#include "ljtrace/collector/children.h"
#include "ljtrace/collector/ending.h"
#include "ljtrace/collector/looks.h"
#include "ljtrace/collector/remarks.h"
#include "ljtrace/protocol/local_socket.h"
#include "ljtrace/protocol/trace_name.h"
#include "ljtrace/protocol/ring.h"
#include "ljtrace/protocol/ring_memory.h"
#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Number of events in a chunk if the output is text: few, so that the text is not delayed. */
enum { TEXT_CHUNK_EVENTS = 4096 };

/* Settings of malloc in bytes: the largest block from its heap (32 MiB is the maximum), how much free memory
 * it keeps, and how much it gets at the start. */
enum { HEAP_BLOCK = 32 << 20, HEAP_KEPT = 64 << 20, HEAP_READY = 24 << 20 };

/* Send the final message of this process. The tool shows it to the user. */
static void send_final(const struct collector *c, const char *what, const char *why)
{
    char text[400];
    int n = snprintf(text, sizeof text, "%s %s: %s", what, c->name, why);
    if (n > 0 && send(c->channel.socket, text, strlen(text), MSG_NOSIGNAL) < 0)
        return; /* the tool is gone */
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Close all descriptors except the n in `keep`, which may contain one twice. */
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

/* Close all descriptors except our own and those that the output needs; a command may write to the
 * terminal. */
static void close_all_but(const struct collector *c)
{
    int keep[4] = {c->channel.socket};
    size_t n = 1;
    if (c->name[0] == '|' || strcmp(c->name, "-") == 0) {
        keep[n++] = STDOUT_FILENO;
        keep[n++] = STDERR_FILENO;
    }
    if (sink_descriptor(c->name) >= 0)
        keep[n++] = sink_descriptor(c->name);
    close_others(keep, n);
}

/* Map the ring. Its header is writable, its slabs are read-only. Returns false on failure. */
static bool map_ring(struct collector *c, int fd)
{
    struct ring_header header = {0}; /* as it was when it was checked */
    void *at = mmap(NULL, RING_HEADER_BYTES, PROT_READ, MAP_SHARED, fd, 0), *ring = MAP_FAILED;
    if (at != MAP_FAILED) {
        memcpy(&header, at, sizeof header);
        munmap(at, RING_HEADER_BYTES);
    }
    if (ring_is_valid(&header))
        ring = mmap(NULL, ring_bytes(&header), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (ring == MAP_FAILED || mprotect(ring, RING_HEADER_BYTES, PROT_READ | PROT_WRITE) != 0)
        return false;
    c->slab_count = header.slab_count;
    c->slab_bytes = header.slab_bytes;
    c->ring = c->channel.ring = ring;
    return true;
}

/* The bytes of all slabs. The header may be damaged by the program, so its number of slabs is not read again. */
static size_t slabs_bytes(const struct collector *c)
{
    return (size_t)c->slab_count * c->slab_bytes;
}

static const uint8_t *slab_at(const struct collector *c, uint32_t slab)
{
    return ((const uint8_t *)c->ring + RING_HEADER_BYTES + (uint64_t)slab * c->slab_bytes);
}

static struct mt_writer_options writer_options(const struct collector *c)
{
    /* Text must not be delayed by a background thread. With parts, the size of the file must be exact at any
     * time. */
    const struct recording *r = &c->recording;
    return (struct mt_writer_options){.level = (int)r->level,
                                      .forget_freed = !r->freed,
                                      .beside = r->beside,
                                      .attached = r->attached,
                                      .sample = {.every = r->sample_blocks, .seed = r->sample_seed},
                                      .background = !r->text && !r->keep_last,
                                      .chunk_events = r->text ? TEXT_CHUNK_EVENTS : 0};
}

static const char *begin_part(struct collector *c)
{
    const struct mt_writer_options options = writer_options(c);
    const char *wrong = keep_begin_part(&c->keep, &c->sink, &c->writer, &options, c->process);
    feed_rebind(c->feed, c->writer);
    return wrong;
}

/* Feed the first `bytes` bytes of a slab, except those fed before. Returns false if the recording cannot go
 * on. */
static int consume(struct collector *c, uint32_t slab, uint64_t bytes, enum feed_end how)
{
    const char *wrong = "token out of range";
    const uint64_t fed = slab == c->begun ? c->begun_bytes : 0;
    size_t more = 0;
    if (slab < c->slab_count && bytes <= c->slab_bytes && fed <= bytes)
        wrong = feed_records(c->feed, slab_at(c, slab) + fed, bytes - fed, how, &more);
    if (how == FEED_GROWING) {
        c->begun = slab;
        c->begun_bytes = fed + more;
    }
    /* An error of the writer may be the cause of an error of the feed, so it is reported first. */
    if (mt_writer_error(c->writer)->code != MT_E_NONE)
        wrong = mt_writer_error(c->writer)->text;
    if (!wrong && keep_is_due(&c->keep, c->writer))
        wrong = begin_part(c);
    if (wrong)
        send_final(c, "cannot write", wrong);
    if (mt_writer_limited(c->writer))
        c->ring->full = 1;
    return !wrong;
}

/* Feed the slab that was being written when the tool vanished, up to the cursor. If the cursor is outside the
 * current slab, the tool was just changing slabs, and the new one is empty. */
static int consume_tail(struct collector *c)
{
    uint32_t slab = c->ring->current;
    uint64_t start = c->ring->slabs + (uint64_t)slab * c->slab_bytes;
    uint64_t cursor = c->ring->cursor;
    if (slab == c->last_slab || cursor < start || cursor > start + c->slab_bytes)
        return 1;
    return consume(c, slab, cursor - start, FEED_CUT);
}

/* Send one byte to the tool. */
static int say(const struct collector *c, char what)
{
    return send(c->channel.socket, &what, 1, MSG_NOSIGNAL) == 1;
}

static int serve(struct collector *c);

/* Find out when the process began. */
static void know_process(struct collector *c)
{
    if (!sink_process((int)c->recording.process, c->process, sizeof c->process))
        c->process[0] = 0;
}

/* Receive "PID:NAME", the process and the file of a forked child. Returns false if there is no child because
 * the fork failed. */
static bool receive_name(struct collector *c)
{
    struct ring_token token;
    char *name, *end;
    if (!channel_receive(&c->channel, &token, sizeof token, NULL) || token.slab != RING_FORK)
        return false;
    name = calloc(1, (size_t)token.bytes + 1);
    if (!name || !channel_receive(&c->channel, name, token.bytes, NULL))
        return false;
    c->recording.process = (uint32_t)strtol(name, &end, 10);
    know_process(c);
    c->name = *end ? end + 1 : end;
    return true;
}

/* The same for a child of the native recorder, which is at the other end of the socket: make its ring, and send it. */
static bool welcome_child(struct collector *c, int pid, int *memfd)
{
    struct ring_header *ring = ring_memory_new(memfd);
    if (!ring)
        return false;
    c->recording.process = (uint32_t)pid;
    ring->recording = c->recording;
    ring->filters = c->ring->filters;
    munmap(ring, RING_HEADER_BYTES);
    know_process(c);
    c->name = sink_of_child(c->pattern, c->name, pid);
    return c->name && local_send(c->channel.socket, *memfd) == 0;
}

/* The largest size that the system permits a file (RLIMIT_FSIZE), less what ends a trace properly; 0 = it has no limit, or
 * one that leaves no room. */
static uint64_t systems_limit(const struct collector *c)
{
    enum { ROOM = 32 << 10, ROOM_SHARE = 16 };
    struct rlimit limit;
    if (!sink_is_replaceable(&c->sink) || getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur < 2 * ROOM)
        return 0;
    return limit.rlim_cur - ROOM - limit.rlim_cur / ROOM_SHARE;
}

/* Begin the file with the identity of the process: its next image recognises the file by it (RING_TAKEN). */
static void begin_writing(struct collector *c)
{
    const uint64_t most = systems_limit(c), wanted = c->recording.max_size;
    const uint64_t limit = most && (!wanted || most < wanted) ? most : wanted;
    c->limit_name = limit == wanted ? "--max-size" : "the limit on the size of files (ulimit -f)";
    if (c->process[0])
        mt_writer_info(c->writer, "process", c->process);
    if (c->recording.pages_every)
        remarks_number(c, "pages_every", c->recording.pages_every);
    if (c->recording.keep_last)
        c->keep = keep_for(limit);
    else if (limit)
        mt_writer_limit(c->writer, limit, c->limit_name);
    mt_writer_flush(c->writer);
}

static bool open_sink(struct collector *c, bool draft)
{
    /* The program does not have our socket: to the user, this number names no descriptor. */
    bool ours = sink_descriptor(c->name) == c->channel.socket;
    if (!ours && sink_open(&c->sink, c->name, c->recording.text, draft, c->process)) {
        if (!c->recording.keep_last || sink_is_replaceable(&c->sink))
            return true;
        send_final(c, "cannot write", "--keep=last needs a file");
        return false;
    }
    errno = ours ? EBADF : errno;
    if (errno == EWOULDBLOCK)
        say(c, RING_BUSY);
    else
        send_final(c, "cannot write", errno == EEXIST ? "there is a file that is no trace" : strerror(errno));
    return false;
}

/* Write where a native child comes from, as the tool does for its children. */
static void write_origin(struct collector *c, const char *file, uint32_t pid)
{
    remarks_number(c, "forked_from_pid", pid);
    mt_writer_info(c->writer, "forked_from_file", file);
    remarks_number(c, "pid", c->recording.process);
}

/* Called in a fork of the collector: release the parent's ring and file and become the child's collector. The
 * child's file is a draft until the child turns out not to be just on its way to exec another program. memfd: the ring; -1 =
 * it is made here. pid: a child of the native recorder. */
static int become_childs(struct collector *c, int memfd, int socket, int pid)
{
    const struct mt_writer_options options = writer_options(c);
    struct mt_error err = {0};
    const char *parents = c->name;
    const uint32_t parent = c->recording.process;
    close(c->channel.socket);
    sink_leave(&c->sink);
    c->channel.socket = socket;
    const bool known = c->recording.native ? welcome_child(c, pid, &memfd) : receive_name(c);
    munmap(c->ring, RING_HEADER_BYTES + slabs_bytes(c));
    if (!known || !map_ring(c, memfd) || !open_sink(c, true))
        return 1;
    c->writer = mt_writer_fork(c->writer, c->sink.fd, &options, &err);
    if (!c->writer) {
        send_final(c, "cannot write", err.text);
        sink_discard(&c->sink);
        return 1;
    }
    feed_rebind(c->feed, c->writer);
    feed_other_ring(c->feed);
    c->lost_snapshots = 0;
    c->children = 0;
    feed_process(c->feed, (int)c->recording.process);
    begin_writing(c);
    if (c->recording.native) {
        channel_use_memory(&c->channel, &c->recording);
        write_origin(c, parents, parent);
    }
    c->last_slab = c->begun = RING_SLABS;
    c->forked = true;
    return serve(c) ? 0 : 1;
}

static void follow_fork(struct collector *c, const int fds[2])
{
    if (fds[0] < 0 || fds[1] < 0)
        return;
    mt_writer_flush(c->writer);
    c->children++;
    if (fork() == 0)
        _exit(become_childs(c, fds[0], fds[1], 0));
    close(fds[0]);
    close(fds[1]);
}

/* How long a process that was announced may take to connect, in milliseconds: the machine may be slow, and nothing waits for a
 * copy of the collector; but the program may have to wait while the collector itself does. */
enum { LONGEST_ALONE = 30000, LONGEST_BETWEEN = 10000 };

/* The program has announced a fork in its ring. A copy of this process waits for the child. */
static void follow_native_fork(struct collector *c)
{
    int pid = 0;
    mt_writer_flush(c->writer);
    c->children++;
    const int listener = local_listen(feed_fork_socket(c->feed));
    if (listener >= 0 && fork() == 0) {
        const int child = channel_accept(listener, LONGEST_ALONE, &pid);
        _exit(child >= 0 ? become_childs(c, -1, child, pid) : 1);
    }
    if (listener >= 0)
        close(listener);
    channel_announce(&c->channel);
}

/* A copy of the program takes a snapshot, or reports its blocks: read it now, so that it is where it belongs among the
 * events. The program goes on, and waits only if the ring is full. */
static void follow_copy(struct collector *c)
{
    int pid = 0;
    mt_writer_flush(c->writer);
    const int listener = local_listen(feed_fork_socket(c->feed));
    channel_announce(&c->channel);
    const int copy = listener >= 0 ? channel_accept(listener, LONGEST_BETWEEN, &pid) : -1;
    const bool good = copy >= 0 && copy_read(copy, c->feed);
    if (!good && feed_awaits_existing(c->feed))
        feed_existing_failed(c->feed);
    else if (!good) {
        feed_drop_snapshot(c->feed);
        c->lost_snapshots++;
    }
    if (good && c->pages)
        copy_wait_for_end(copy);
    if (copy >= 0)
        close(copy);
}

/* Answer RAW_REPORT with a line about the state of the recording. */
static void report_send(const struct collector *c)
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
    if (send(c->channel.socket, text, (size_t)n, MSG_NOSIGNAL) < 0)
        return; /* the tool is gone: the next receive fails */
}

/* Answer the request for a report or a snapshot, if there was one in the records fed. */
static void answer_request(struct collector *c)
{
    enum feed_request request = feed_take_request(c->feed);
    if (request == FEED_FORK) {
        follow_native_fork(c);
        return;
    }
    if (request == FEED_COPY) {
        follow_copy(c);
        return;
    }
    if (request == FEED_SNAPSHOT || c->recording.text)
        mt_writer_flush(c->writer);
    if (request != FEED_NONE)
        report_send(c);
}

/* -- keeping the file up to date while the program runs --
 *
 * If a control group runs out of memory, the kernel kills all its processes at once, the program as well as
 * the collector with all that is in its memory. To limit the loss, the content of the ring is written to the
 * file about once a second. */

enum { FLUSH_MILLISECONDS = 800 };

/* Milliseconds until the file is due to be updated; 0 = now. */
static int until_writing(const struct collector *c)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t passed =
        (int64_t)(now.tv_sec - c->wrote.tv_sec) * 1000 + (now.tv_nsec - c->wrote.tv_nsec) / 1000000;
    return passed < FLUSH_MILLISECONDS ? (int)(FLUSH_MILLISECONDS - passed) : 0;
}

/* The number of bytes of the current slab that are final.
 * Tokens are checked after the header was read: a token that came before may announce a fork, and bytes after
 * the fork must not be fed before it. If the tool has moved the cursor back meanwhile, `cursor` may be from
 * before that and `held` from after it; they are read again then. */
static uint64_t settled_bytes(struct collector *c, uint32_t *slab)
{
    const volatile struct ring_header *ring = c->ring;
    uint64_t cursor, held, rewinds;
    do {
        rewinds = ring->rewinds;
        *slab = ring->current;
        cursor = ring->cursor;
        held = ring->held;
    } while (rewinds != ring->rewinds);
    const uint64_t start = ring->slabs + (uint64_t)*slab * c->slab_bytes;
    if (held && (held < start || held > cursor))
        return 0; /* bytes outside this slab may be taken back */
    cursor = held ? held : cursor;
    bool same = *slab == ring->current && cursor >= start && cursor <= start + c->slab_bytes;
    return same && *slab != c->last_slab && !channel_has_token(&c->channel, 0) ? cursor - start : 0;
}

/* Feed the final bytes of the current slab and write all events so far to the file. Returns false like
 * consume. */
static int write_so_far(struct collector *c)
{
    uint32_t slab;
    uint64_t bytes = settled_bytes(c, &slab), fed = slab == c->begun ? c->begun_bytes : 0;
    if (bytes > fed && !consume(c, slab, bytes, FEED_GROWING))
        return 0;
    if (!mt_writer_limited(c->writer))
        mt_writer_flush(c->writer);
    clock_gettime(CLOCK_MONOTONIC, &c->wrote);
    return 1;
}

/* Milliseconds until something is due besides tokens. */
static int until_due(const struct collector *c)
{
    const int writing = until_writing(c), pages = looks_may_begin(c) ? pages_wait(c->pages) : writing;
    return pages < writing ? pages : writing;
}

/* Do what is due. has_token: are there records to be read, besides those of the current slab? Returns false like consume. */
static int do_due(struct collector *c, bool has_token)
{
    const char *reason = looks_due(c);
    const bool ends = c->look.reason && !has_token;
    if ((reason || ends || until_writing(c) == 0) && !write_so_far(c))
        return 0;
    if (reason)
        looks_begin(c, reason);
    else if (ends && !channel_has_token(&c->channel, 0)) /* else not all was read */
        looks_end(c);
    return 1;
}

/* Has the program executed another one, after which no records come? The file is then complete, although the process runs on.
 * `ljtrace attach` finds this out itself. */
static bool is_replaced(struct collector *c)
{
    const bool asks = c->recording.native && (c->forked || !c->recording.attached);
    return asks && feed_ending(c->feed) == MT_ENDING_EXEC && channel_is_left(&c->channel) &&
           !channel_has_token(&c->channel, 0);
}

/* Read tokens and feed slabs until the recording or the tool has ended. Returns false if the recording
 * failed. */
static int collect(struct collector *c)
{
    struct ring_token token;
    int fds[2] = {-1, -1};
    clock_gettime(CLOCK_MONOTONIC, &c->wrote);
    for (;;) {
        const int wait = until_due(c);
        const bool has_token = channel_has_token(&c->channel, c->look.reason ? 0 : wait);
        if (wait == 0 || !has_token) {
            if (!do_due(c, has_token))
                return 0;
            if (is_replaced(c))
                break;
            continue;
        }
        if (!channel_token(&c->channel, &token, fds))
            break;
        sink_reap(&c->sink);
        if (token.slab == RING_FORK) {
            follow_fork(c, fds);
            fds[0] = fds[1] = -1;
            continue;
        }
        if (!consume(c, token.slab, token.bytes, FEED_WHOLE))
            return 0;
        c->last_slab = token.slab;
        c->begun = RING_SLABS;
        looks_release(c);
        answer_request(c);
        if (feed_ended(c->feed))
            return 1;
        sink_publish(&c->sink, c->process);
    }
    return consume_tail(c);
}

static void send_limit(const struct collector *c, uint64_t dropped)
{
    char text[100];
    snprintf(text, sizeof text, "%s was reached: at least %" PRIu64 " events were dropped", c->limit_name,
             dropped);
    send_final(c, "written", text);
}

/* End the file. Returns NULL, or what is wrong with the file or with the processes that read it. */
static const char *end_file(struct collector *c, enum mt_ending ending, struct mt_error *err)
{
    bool written = mt_writer_finish(c->writer, ending, err) != MT_ERROR;
    bool removed = sink_is_removed(&c->sink);
    const char *wrong = sink_close(&c->sink);
    if (!written)
        return err->text;
    return removed ? "the file was removed while it was written" : wrong;
}

/* A program that goes on after the recording keeps the ring mapped: return the memory of its slabs to the system. */
static void release_ring(const struct collector *c)
{
    uint8_t *slabs = (uint8_t *)c->ring + RING_HEADER_BYTES;
    const size_t bytes = slabs_bytes(c);
    if (c->recording.native && feed_ended(c->feed) && mprotect(slabs, bytes, PROT_READ | PROT_WRITE) == 0)
        madvise(slabs, bytes, MADV_REMOVE);
}

/* How the recording has ended. The ring's header is also the program's, so it may say anything. */
static struct ending how_it_ended(const struct collector *c, uint64_t dropped)
{
    return ending_of(&(struct ending_known){.native = c->recording.native,
                                            .forked = c->forked,
                                            .draft = c->sink.draft != NULL,
                                            .has_end = feed_ended(c->feed),
                                            .said = feed_ending(c->feed),
                                            .begun = c->ring->begun,
                                            .ended = c->ring->ended,
                                            .exiting = c->ring->exiting,
                                            .status = c->ring->status,
                                            .dropped = dropped});
}

/* End the file, whatever happened before. */
static int finish(struct collector *c, int complete)
{
    struct mt_error err = {0};
    if (!feed_ended(c->feed))
        feed_time(c->feed, c->ring->instructions);
    looks_end(c);
    const uint64_t dropped = mt_writer_limited(c->writer);
    const struct ending e = how_it_ended(c, dropped);
    if (e.fact)
        remarks_number(c, e.fact, e.value);
    if (e.file == ENDING_DISCARD)
        sink_discard(&c->sink);
    else if (e.file == ENDING_PUBLISH)
        sink_publish(&c->sink, c->process);
    children_await(c);
    remarks_write(c);
    if (e.note)
        remarks_send(c, e.note);
    if (e.file == ENDING_REMOVE)
        sink_remove(&c->sink);
    const char *wrong = e.file == ENDING_REMOVE ? sink_close(&c->sink) : end_file(c, e.ending, &err);
    if (!wrong && e.file != ENDING_REMOVE)
        remarks_name(c);
    if (complete && wrong)
        send_final(c, "cannot write", wrong);
    else if (complete && dropped)
        send_limit(c, dropped);
    release_ring(c);
    shutdown(c->channel.socket, SHUT_RDWR); /* The tool need not wait until all memory is freed. */
    feed_free(c->feed);
    pages_free(c->pages);
    return complete && !wrong;
}

/* Prepare malloc so that it seldom asks the kernel for memory. By default large blocks are mappings of their
 * own, which are unmapped when they are freed. Mapping their pages again took a tenth of the coder's time on
 * machines where page faults are slow. While Valgrind starts the program, there is time to populate the first
 * pages. The native recorder starts it at once, and a sample may never need them. */
static void prepare_memory(const struct collector *c)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
    mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
    if (c->recording.native)
        return;
    void *block = malloc(HEAP_READY);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)block & ~(page - 1);
    /* An inherited seccomp filter may kill the process for this call. */
    if (block && prctl(PR_GET_SECCOMP) == 0)
        madvise((void *)first, HEAP_READY, MADV_POPULATE_WRITE);
    free(block);
}

static int serve(struct collector *c)
{
    pages_free(c->pages); /* of the parent's */
    looks_forget(c);
    c->pages = c->recording.pages ? pages_new((int)c->recording.process, c->recording.pages_every) : NULL;
    say(c, RING_READY); /* If the tool is gone already, the file is still ended properly. */
    if (!c->forked)
        prepare_memory(c);
    return finish(c, collect(c));
}

static int run(struct collector *c)
{
    const struct mt_writer_options options = writer_options(c);
    struct mt_error err = {0};
    if (!c->recording.native && c->process[0] && sink_is_of(c->name, c->process))
        return say(c, RING_TAKEN) ? 0 : 1;
    if (!open_sink(c, false))
        return 1;
    c->writer = mt_writer_new(c->sink.fd, &options, &err);
    if (!c->writer) {
        send_final(c, "cannot write", err.text);
        return 1;
    }
    c->feed = feed_new(c->writer);
    feed_process(c->feed, (int)c->recording.process);
    if (c->recording.existing)
        feed_await_existing(c->feed);
    begin_writing(c);
    return serve(c) ? 0 : 1;
}

/* Each object file of the program stays open. */
static void allow_many_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* A descriptor among the arguments; -1 = it is none. */
static int descriptor(const char *text)
{
    char *end;
    const long n = strtol(text, &end, 10);
    return end != text && !*end && n >= 0 && n <= INT_MAX ? (int)n : -1;
}

/* The arguments are the descriptors of the ring and of the socket, and the output. What else is asked is in the ring. */
int main(int argc, char **argv)
{
    struct collector c = {.last_slab = RING_SLABS, .begun = RING_SLABS};
    const int ring = argc == 4 ? descriptor(argv[1]) : -1;
    c.channel.socket = argc == 4 ? descriptor(argv[2]) : -1;
    if (ring < 0 || c.channel.socket < 0) {
        fprintf(stderr, "ljtrace-collector is run by valgrind --tool=ljtrace and ljtrace run, not by hand\n");
        return 2;
    }
    c.name = c.pattern = argv[3];
    if (!map_ring(&c, ring) || !ring_read_recording(c.ring, &c.recording)) {
        send_final(&c, "cannot record to", "the tool and the collector are of different versions");
        return 1;
    }
    if (c.recording.native && !(c.name = trace_name_expand(c.pattern, (int)c.recording.process)))
        return 1;
    know_process(&c);
    close_all_but(&c);
    allow_many_files();
    while (open("/dev/null", O_RDWR) >= 0 && fcntl(STDERR_FILENO, F_GETFD) < 0)
        ; /* descriptors opened from here on are not 0, 1 or 2 */
    fcntl(c.channel.socket, F_SETFD, FD_CLOEXEC);
    if (c.recording.native)
        channel_use_memory(&c.channel, &c.recording);
    return run(&c);
}
