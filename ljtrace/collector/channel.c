/* channel.c - receives tokens from a socket, or filled slabs by counters in shared memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/collector/channel.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void channel_use_memory(struct channel *c, int pid)
{
    c->in_memory = true;
    c->process = (int)syscall(SYS_pidfd_open, pid, 0);
    c->ring->collector = (uint32_t)getpid();
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

/* Has the program ended? As long as there is a launcher that is its parent, it says so, since it knows the status. */
static bool has_ended(const struct channel *c)
{
    return load(&c->ring->ended) ||
           (c->process >= 0 && is_readable(c->process, 0) && (c->ring->attached || is_closed(c->socket)));
}

/* Is there a filled slab, or has the program ended? */
static bool memory_has_token(const struct channel *c)
{
    return load(&c->ring->filled) != c->ring->consumed || has_ended(c);
}

bool channel_has_token(struct channel *c, int milliseconds)
{
    if (!c->in_memory)
        return is_readable(c->socket, milliseconds);
    const uint32_t filled = load(&c->ring->filled);
    if (milliseconds && !memory_has_token(c)) {
        const struct timespec most = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
        syscall(SYS_futex, &c->ring->filled, FUTEX_WAIT, filled, &most, NULL, 0);
    }
    return memory_has_token(c);
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

bool channel_accept(const char *name, int fds[2])
{
    enum { LONGEST = 30000 }; /* milliseconds: the machine may be slow, and nothing waits for this process */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t n = strlen(name);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int copies[2] = {-1, -1};
    char byte;
    if (listener < 0 || n + 1 > sizeof address.sun_path)
        return false;
    memcpy(address.sun_path + 1, name, n);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    fds[1] = -1;
    if (bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
        is_readable(listener, LONGEST))
        fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    const struct channel child = {.socket = fds[1]};
    if (fds[1] < 0 || !channel_receive(&child, &byte, 1, copies))
        return false;
    fds[0] = copies[0];
    close(copies[1]);
    return fds[0] >= 0;
}

/* A program that has ended fills no more slabs, so the counter is read after that was seen. */
static bool memory_token(const struct channel *c, struct ring_token *token)
{
    const uint32_t next = c->ring->consumed;
    if (load(&c->ring->filled) == next)
        return false;
    *token = (struct ring_token){next % RING_SLABS, c->ring->bytes[next % RING_SLABS]};
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
