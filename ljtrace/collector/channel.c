/* channel.c - receives tokens from a socket, or filled slabs by counters in shared memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/collector/channel.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Milliseconds. */
static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* -- seccomp filters -- */

/* A thread of the program has the line `Seccomp_filters: N` in /proc, and on kernels before 5.9 only `Seccomp: 2`. Strict
 * mode is `Seccomp: 1`. The first thread is read at each look, since most programs install their filters in it. */

enum { AT_ONCE = 4, STATUS_BYTES = 4096 };

/* The number in a line of the file; -1 = there is no such line. */
static long number_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

static bool has_more(int pid, long thread, uint32_t known)
{
    char path[64], text[STATUS_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task/%ld/status", pid, thread);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const long mode = number_of(text, "\nSeccomp:"), filters = number_of(text, "\nSeccomp_filters:");
    return mode == 1 || (filters >= 0 ? filters > (long)known : mode > 0 && known == 0);
}

/* The next thread; 0 = there is none. */
static long next_thread(struct channel *c)
{
    char path[32];
    if (!c->threads) {
        snprintf(path, sizeof path, "/proc/%d/task", c->pid);
        c->threads = opendir(path);
    }
    for (struct dirent *entry; c->threads && (entry = readdir(c->threads));)
        if (entry->d_name[0] != '.')
            return strtol(entry->d_name, NULL, 10);
    if (c->threads)
        closedir(c->threads);
    c->threads = NULL;
    return 0;
}

/* Look at so many threads of the process besides the first, and at others the next time. Returns true if one has more filters
 * than `known`. */
static bool has_more_filters(struct channel *c, uint32_t known, int most)
{
    bool found = has_more(c->pid, c->pid, known);
    for (int i = 0; i < most && !found; i++) {
        const long thread = next_thread(c);
        if (!thread)
            break;
        found = thread != c->pid && has_more(c->pid, thread, known);
    }
    return found;
}

/* -- slabs -- */

/* The kernel writes FUTEX_OWNER_DIED to the ring's header when this thread ends in any way. */
static void announce_end(struct ring_header *ring)
{
    static struct robust_list entry;
    static struct robust_list_head head;
    entry.next = &head.list;
    head = (struct robust_list_head){.list = {&entry},
                                     .futex_offset = (long)((char *)&ring->collector - (char *)&entry)};
    __atomic_store_n(&ring->collector, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    syscall(SYS_set_robust_list, &head, sizeof head);
}

void channel_use_memory(struct channel *c, const struct recording *recording)
{
    c->in_memory = true;
    c->pid = (int)recording->process;
    c->threads = NULL;
    c->attached = recording->attached;
    c->begun = now();
    c->looked = 0;
    c->process = (int)syscall(SYS_pidfd_open, c->pid, 0);
    announce_end(c->ring);
}

static bool is_readable(int fd, int milliseconds)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, milliseconds) != 0;
}

static uint32_t load(const uint32_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/* Has the other end of the socket been closed? */
static bool is_closed(int socket)
{
    struct pollfd one = {.fd = socket, .events = POLLIN};
    return poll(&one, 1, 0) != 0 && (one.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Does the process exist no more? */
static bool is_gone(const struct channel *c)
{
    return c->process >= 0 ? is_readable(c->process, 0) : kill(c->pid, 0) < 0 && errno == ESRCH;
}

/* Has the program ended? As long as there is a launcher that is its parent, it says so, since it knows the status. */
static bool has_ended(const struct channel *c)
{
    return load(&c->ring->ended) != RING_RUNS || (is_gone(c) && (c->attached || is_closed(c->socket)));
}

bool channel_is_left(const struct channel *c)
{
    char path[32], *line = NULL;
    size_t room = 0, lines = 0;
    bool has_ring = false;
    snprintf(path, sizeof path, "/proc/%d/maps", c->pid);
    FILE *maps = fopen(path, "re");
    while (maps && !has_ring && getline(&line, &room, maps) > 0) {
        has_ring = strstr(line, "memfd:" RING_FILE_NAME);
        lines++;
    }
    free(line);
    if (maps)
        fclose(maps);
    return lines && !has_ring;
}

/* Is there a filled slab, or has the program ended? */
static bool memory_has_token(const struct channel *c)
{
    return load(&c->ring->filled) != c->ring->consumed || has_ended(c);
}

/* Has the program filters that the library does not know? */
static void look_for_filters(struct channel *c, int most)
{
    if (!c->ring->sandboxed && has_more_filters(c, load(&c->ring->filters), most))
        __atomic_store_n(&c->ring->sandboxed, 1, __ATOMIC_RELEASE);
}

/* The library asks before the program exits, from any thread. */
static void answer_for_filters(struct channel *c)
{
    const uint32_t asked = load(&c->ring->filters_asked);
    if (asked == c->ring->filters_answered)
        return;
    if (c->threads)
        closedir(c->threads);
    c->threads = NULL; /* all of them, from the first on */
    look_for_filters(c, INT_MAX);
    __atomic_store_n(&c->ring->filters_answered, asked, __ATOMIC_RELEASE);
}

/* Look from time to time whether the program has installed a filter; more often while it may have to wait for room. */
static void watch_sandbox(struct channel *c)
{
    enum { USUAL = 100, OFTEN = 10 }; /* milliseconds */
    const uint32_t used = load(&c->ring->filled) - c->ring->consumed;
    const int64_t at = now();
    answer_for_filters(c);
    if (c->ring->sandboxed || at < c->looked + (used > c->ring->slab_count / 2 ? OFTEN : USUAL))
        return;
    c->looked = at;
    look_for_filters(c, AT_ONCE);
}

/* How long to sleep at most, in nanoseconds. The library wakes this process only when there is little room left, by a system
 * call, which a filter that was not seen yet may forbid. So this process looks often enough to be there before: a program can
 * fill half of the ring in 25 ms. A program that exits waits for an answer, which should take no large part of its time. */
static int64_t longest_sleep(const struct channel *c)
{
    enum { LEAST = 250000, MOST = 10000000, PART = 32 };
    const int64_t some = (now() - c->begun) * 1000000 / PART;
    return some < LEAST ? LEAST : some < MOST ? some : MOST;
}

static bool wait_in_memory(struct channel *c, int milliseconds)
{
    const int64_t until = now() + milliseconds;
    for (;;) {
        watch_sandbox(c);
        const int64_t left = (until - now()) * 1000000, longest = longest_sleep(c);
        if (memory_has_token(c) || left <= 0)
            return memory_has_token(c);
        const struct timespec most = {0, left < longest ? left : longest};
        __atomic_store_n(&c->ring->sleeps, 1, __ATOMIC_SEQ_CST);
        const uint32_t filled = __atomic_load_n(&c->ring->filled, __ATOMIC_SEQ_CST);
        if (!memory_has_token(c))
            syscall(SYS_futex, &c->ring->filled, FUTEX_WAIT, filled, &most, NULL, 0);
        __atomic_store_n(&c->ring->sleeps, 0, __ATOMIC_RELAXED);
    }
}

bool channel_has_token(struct channel *c, int milliseconds)
{
    return c->in_memory ? wait_in_memory(c, milliseconds) : is_readable(c->socket, milliseconds);
}

bool channel_receive(const struct channel *c, void *to, size_t size, int fds[2])
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
        ssize_t n = recvmsg(c->socket, &message, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        have += (size_t)n;
        const struct cmsghdr *m = CMSG_FIRSTHDR(&message);
        if (fds && m && m->cmsg_type == SCM_RIGHTS && m->cmsg_len == CMSG_LEN(2 * sizeof(int)))
            memcpy(fds, CMSG_DATA(m), 2 * sizeof(int));
    }
    return true;
}

void channel_announce(struct channel *c)
{
    __atomic_add_fetch(&c->ring->listening, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &c->ring->listening, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int channel_accept(int listener, int milliseconds, int *pid)
{
    const int fd = is_readable(listener, milliseconds) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    struct ucred child = {0};
    socklen_t n = sizeof child;
    close(listener);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &child, &n) != 0 || child.pid <= 0)
        return -1; /* a process of a pid namespace that is not below this one's has no id here */
    *pid = child.pid;
    return fd;
}

/* A program that has ended fills no more slabs, so the counter is read after that was seen. */
static bool memory_token(const struct channel *c, struct ring_token *token)
{
    const uint32_t next = c->ring->consumed;
    if (load(&c->ring->filled) == next)
        return false;
    const uint32_t slab = next % c->ring->slab_count % RING_SLABS;
    *token = (struct ring_token){slab, c->ring->bytes[slab]};
    return true;
}

bool channel_token(struct channel *c, struct ring_token *token, int fds[2])
{
    return c->in_memory ? memory_token(c, token) : channel_receive(c, token, sizeof *token, fds);
}

void channel_release(struct channel *c)
{
    const char byte = RING_SLAB_FREE;
    if (!c->in_memory) {
        if (send(c->socket, &byte, 1, MSG_NOSIGNAL) < 0)
            return; /* the tool is gone */
        return;
    }
    __atomic_add_fetch(&c->ring->consumed, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &c->ring->consumed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
