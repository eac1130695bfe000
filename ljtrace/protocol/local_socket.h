/* local_socket.h - abstract sockets, and a descriptor that is sent over one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The native library gets the memory of a ring in this way: of the launcher after an attach, of the collector in a forked
 * child. It is inline code, since the library calls no function that a program may replace.
 */
#ifndef LJTRACE_PROTOCOL_LOCAL_SOCKET_H
#define LJTRACE_PROTOCOL_LOCAL_SOCKET_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The address of the abstract socket with this name of n bytes. Returns its size; 0 = the name is too long. */
static inline socklen_t local_address(struct sockaddr_un *to, const char *name, size_t n)
{
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n + 1 > sizeof to->sun_path)
        return 0;
    memcpy(to->sun_path + 1, name, n);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* Listen on that socket. Returns -1 on failure. */
static inline int local_listen(const char *name)
{
    struct sockaddr_un address;
    const socklen_t size = local_address(&address, name, strlen(name));
    const int fd = size ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0 || (bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 4) == 0))
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Connect to it. Returns -1 on failure. */
static inline int local_connect(const char *name, size_t n)
{
    struct sockaddr_un address;
    const socklen_t size = local_address(&address, name, n);
    const int fd = size ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    int result = -1;
    while (fd >= 0 && (result = connect(fd, (struct sockaddr *)&address, size)) != 0 && errno == EINTR)
        ;
    if (fd < 0 || result == 0)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* A message of one byte that has room for a descriptor. */
struct local_message {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    struct iovec part;
    struct msghdr header;
};
static inline void local_message(struct local_message *m)
{
    memset(m, 0, sizeof *m);
    m->part = (struct iovec){&m->byte, 1};
    m->header = (struct msghdr){.msg_iov = &m->part,
                                .msg_iovlen = 1,
                                .msg_control = m->control.bytes,
                                .msg_controllen = sizeof m->control};
}

/* Send a descriptor over a connection. Returns 0, or -1 on failure. */
static inline int local_send(int socket, int fd)
{
    struct local_message m;
    local_message(&m);
    struct cmsghdr *c = CMSG_FIRSTHDR(&m.header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &m.header, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* Receive one. Returns -1 if none comes. */
static inline int local_receive(int socket)
{
    struct local_message m;
    int fd = -1;
    ssize_t n;
    local_message(&m);
    while ((n = recvmsg(socket, &m.header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    const struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&m.header) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

#endif
