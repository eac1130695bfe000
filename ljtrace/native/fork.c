/* fork.c - a ring of its own for each forked child.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Before the fork, a record with the name of an abstract socket is written, as the last of its slab. When the collector
 * reads it, it forks as well: its copy knows all blocks of this moment, and listens on the socket. The child connects,
 * sends the memory of a new ring, and waits until the collector is ready. All descriptors are closed then. The ring is
 * locked during the fork, so that no thread has an event that is not complete.
 */
#define _GNU_SOURCE
#include "ljtrace/native/events.h"
#include "ljtrace/native/lua_states.h"
#include "ljtrace/native/sample.h"
#include "ljtrace/native/stack_sampler.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 40, ATTEMPTS = 3000, PAUSE = 10 * 1000000 /* nanoseconds */ };

static bool s_announced;
static char s_name[NAME_BYTES];
static uint32_t s_forks;

/* Append a number in decimal digits and return the new end. */
static char *put_digits(char *at, uint64_t number)
{
    char digits[24], *first = digits + sizeof digits;
    do
        *--first = (char)('0' + number % 10);
    while (number /= 10);
    const size_t n = (size_t)(digits + sizeof digits - first);
    memcpy(at, first, n);
    return at + n;
}

/* ljtrace-fork-PID-NUMBER-NANOSECONDS: no other process has this name by accident. */
static void make_name(void)
{
    char *at = stpcpy(s_name, "ljtrace-");
    at = put_digits(at, native_options.process);
    *at++ = '-';
    at = put_digits(at, ++s_forks);
    *at++ = '-';
    *put_digits(at, native_now()) = 0;
}

static void before_fork(void)
{
    const int error = errno;
    if (native_options.forks)
        lua_states_settle();
    s_announced = native_is_on() && native_options.forks && native_enter(NATIVE_HERE.sp);
    if (s_announced) {
        make_name();
        native_ring_put_lost();
        NATIVE_PUT(forked, .instructions = native_now(), .name = native_text(s_name));
        native_ring_flush();
    }
    errno = error;
}

static void in_parent(void)
{
    const int error = errno;
    if (s_announced)
        native_leave();
    errno = error;
}

/* Connect to the collector, which may not have read the announcement yet. Returns -1 if it does not come. */
static int connect_to_collector(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t n = strlen(s_name);
    const struct timespec pause = {0, PAUSE};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path + 1, s_name, n);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    for (int i = 0; fd >= 0 && i < ATTEMPTS; i++) {
        if (connect(fd, (struct sockaddr *)&address, size) == 0)
            return fd;
        if (errno != ECONNREFUSED && errno != EINTR)
            break;
        nanosleep(&pause, NULL);
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Send a byte with the ring's memory, then the process id. Returns false if the collector is gone. */
static bool introduce(int socket, int memfd)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char byte = 0, pid[24];
    const int both[2] = {memfd, memfd};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof both);
    memcpy(CMSG_DATA(c), both, sizeof both);
    char *end = put_digits(pid, (uint64_t)getpid());
    *end++ = ':';
    const struct ring_token token = {RING_FORK, (uint32_t)(end - pid)};
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 &&
           send(socket, &token, sizeof token, MSG_NOSIGNAL) == (ssize_t)sizeof token &&
           send(socket, pid, token.bytes, MSG_NOSIGNAL) == (ssize_t)token.bytes;
}

/* Make a ring that the collector accepts. Returns its memory; -1 on failure. */
static int make_ring(void)
{
    const int fd = memfd_create("ljtrace-ring", MFD_CLOEXEC);
    struct ring_header *ring = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)RING_BYTES) == 0)
        ring = mmap(NULL, RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    ring->magic = RING_MAGIC;
    ring->version = RING_VERSION;
    ring->drops = native_ring_may_drop();
    munmap(ring, RING_HEADER_BYTES);
    return fd;
}

/* Begin the recording of this child. If that fails, it is not recorded. */
static void begin_child(int socket, int memfd)
{
    char ready = 0;
    if (!introduce(socket, memfd))
        return;
    while (recv(socket, &ready, 1, 0) < 0 && errno == EINTR)
        ;
    native_options.process = (uint32_t)getpid();
    native_events_anew();
    native_sample_forked();
    if (ready == RING_READY && native_ring_map(memfd))
        stack_sampler_anew();
}

static void in_child(void)
{
    const int error = errno;
    const int socket = s_announced ? connect_to_collector() : -1, memfd = socket >= 0 ? make_ring() : -1;
    if (memfd >= 0) {
        begin_child(socket, memfd);
        close(memfd);
    }
    if (socket >= 0)
        close(socket);
    errno = error;
}

void native_follow_forks(void)
{
    static bool registered;
    if (native_options.forks && !registered)
        registered = pthread_atfork(before_fork, in_parent, in_child) == 0;
}
