/* filled.c - system calls that move data into memory, and what each of them really filled; see filling.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "filling.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int s_in, s_out;       /* a pair of datagram sockets */
static int s_zero;            /* /dev/zero */
static int s_event, s_poller; /* always readable; waits for it */
static int s_queue;

static struct iovec *parts(void)
{
    static struct iovec two[2];
    two[0] = (struct iovec){b + 1, 3};
    two[1] = (struct iovec){b + 10, 100};
    return two;
}

static void send_hello(void)
{
    if (send(s_out, "hello", 5, 0) != 5)
        exit(1);
}

static long f_read(void)
{
    send_hello();
    return read(s_in, b + 3, 100);
}
static long f_read_nothing(void)
{
    return read(s_in, b + 3, 100); /* fails: not ready */
}
static long f_read_bad(void)
{
    return syscall(SYS_read, s_zero, 16, 100);
}
static long f_pread(void)
{
    return pread(s_zero, b + 2, 33, 4);
}
static long f_readv(void)
{
    send_hello();
    return readv(s_in, parts(), 2);
}
static long f_preadv(void)
{
    return preadv(s_zero, parts(), 2, 0);
}
static long f_recv(void)
{
    send_hello();
    return recv(s_in, b + 2, 100, 0);
}
static long f_recv_cut(void)
{
    send_hello();
    return recv(s_in, b + 2, 2, MSG_TRUNC); /* gives 5 */
}
static long f_recvmsg(void)
{
    struct msghdr message = {.msg_iov = parts(), .msg_iovlen = 2};
    send_hello();
    return recvmsg(s_in, &message, 0);
}
static long f_recvmmsg(void)
{
    struct iovec *part = parts();
    struct mmsghdr message[2] = {{.msg_hdr = {.msg_iov = part, .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = part + 1, .msg_iovlen = 1}}};
    send_hello();
    send_hello();
    return recvmmsg(s_in, message, 2, 0, NULL);
}
static long f_getrandom(void)
{
    return syscall(SYS_getrandom, b + 1, 133, 0);
}
static long f_getcwd(void)
{
    return syscall(SYS_getcwd, b + 1, 300);
}
static long f_readlink(void)
{
    return readlink("/proc/self/exe", b + 1, 4);
}
static long f_stat(void)
{
    return stat("/", (struct stat *)b);
}
static long f_statfs(void)
{
    return statfs("/", (struct statfs *)b);
}
static long f_uname(void)
{
    return uname((struct utsname *)b);
}
static long f_time(void)
{
    return syscall(SYS_clock_gettime, CLOCK_REALTIME, b + 8);
}
static long f_pipe(void)
{
    int *ends = (int *)b + 1;
    long result = pipe(ends);
    close(ends[0]);
    close(ends[1]);
    return result;
}
static long f_affinity(void)
{
    return syscall(SYS_sched_getaffinity, 0, 256, b);
}
static long f_name(void)
{
    static socklen_t size;
    size = 100;
    return getsockname(s_in, (struct sockaddr *)b, &size);
}
static long f_option(void)
{
    static socklen_t size;
    size = 100;
    return getsockopt(s_in, SOL_SOCKET, SO_TYPE, b + 4, &size);
}
static long f_epoll(void)
{
    return epoll_wait(s_poller, (struct epoll_event *)b, 10, 0);
}
static long f_event(void)
{
    return read(s_event, b + 8, 100);
}
static long f_waiting(void)
{
    send_hello();
    long result = ioctl(s_in, FIONREAD, b + 4);
    if (recv(s_in, b + 400, 0, 0) < 0)
        return -2;
    return result;
}
static long f_wait(void)
{
    if (fork() == 0)
        _exit(3);
    return wait((int *)(b + 4)) > 0;
}
static long f_message(void)
{
    struct {
        long type;
        char text[8];
    } message = {3, "hello"};
    if (msgsnd(s_queue, &message, 5, 0) != 0)
        return -2;
    return msgrcv(s_queue, b, 100, 0, 0);
}
static long f_mask(void)
{
    return syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, b + 8, 8);
}
static long f_peer(void)
{
    static char text[64] = "source";
    struct iovec from = {text, 9}, to = {b + 5, 9};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0);
}

static const struct filling s_calls[] = {
    {"read", f_read},           {"read-nothing", f_read_nothing},
    {"read-bad", f_read_bad},   {"pread", f_pread},
    {"readv", f_readv},         {"preadv", f_preadv},
    {"recv", f_recv},           {"recv-cut", f_recv_cut},
    {"recvmsg", f_recvmsg},     {"recvmmsg", f_recvmmsg},
    {"getrandom", f_getrandom}, {"getcwd", f_getcwd},
    {"readlink", f_readlink},   {"stat", f_stat},
    {"statfs", f_statfs},       {"uname", f_uname},
    {"clock_gettime", f_time},  {"pipe", f_pipe},
    {"affinity", f_affinity},   {"getsockname", f_name},
    {"getsockopt", f_option},   {"epoll_wait", f_epoll},
    {"eventfd", f_event},       {"FIONREAD", f_waiting},
    {"wait", f_wait},           {"msgrcv", f_message},
    {"sigprocmask", f_mask},    {"process_vm_readv", f_peer},
};

static void open_all(void)
{
    int pair[2];
    struct epoll_event wanted = {.events = EPOLLIN};
    s_zero = open("/dev/zero", O_RDONLY);
    s_event = eventfd(1, EFD_SEMAPHORE | EFD_NONBLOCK);
    s_poller = epoll_create1(0);
    s_queue = msgget(IPC_PRIVATE, 0600);
    if (s_zero < 0 || s_event < 0 || eventfd_write(s_event, 1000) != 0 ||
        epoll_ctl(s_poller, EPOLL_CTL_ADD, s_event, &wanted) != 0 ||
        socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) != 0)
        exit(1);
    s_in = pair[0];
    s_out = pair[1];
}

int main(void)
{
    LJTRACE_STOP();
    open_all();
    fill_all(s_calls, sizeof s_calls / sizeof *s_calls);
    msgctl(s_queue, IPC_RMID, NULL);
    return 0;
}
