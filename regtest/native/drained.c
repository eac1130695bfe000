/* drained.c - system calls that read memory, and the bytes that each of them reads.
 *
 * Each call has a block of its own (FIRST_SIZE bytes, one more for each call), which only the kernel accesses
 * while accesses are recorded. A line for each call: `size name result offset length...`: the bytes that the
 * call's manual page says are read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_SIZE = 52001, RANGES = 4, RESULT = -1 }; /* as long as the call's result */

static char *b; /* what the call reads */
static int s_null, s_file, s_out, s_inet, s_poller, s_timer, s_queue, s_semaphore, s_pipe, s_drain;

static struct iovec *parts(void)
{
    static struct iovec two[2];
    two[0] = (struct iovec){b + 1, 3};
    two[1] = (struct iovec){b + 10, 100};
    return two;
}

/* Something put at the block's start; accesses are recorded from here on. */
static void *with(const void *data, size_t size)
{
    memcpy(b, data, size);
    LJTRACE_START();
    return b;
}

static char *text(const char *t)
{
    return with(t, strlen(t) + 1);
}

#define AS(TYPE, ...) ((TYPE *)with(&(TYPE)__VA_ARGS__, sizeof(TYPE)))

/* -- data ------------------------------------------------------------------------------------------------ */

static long d_write(void)
{
    LJTRACE_START();
    return write(s_null, b + 3, 70);
}
static long d_write_bad(void)
{
    LJTRACE_START();
    return write(-1, b + 3, 70);
}
/* A pipe has room for a part; what is read is what it took. */
static long d_write_part(void)
{
    static char half[1 << 20];
    int size = fcntl(s_pipe, F_GETPIPE_SZ) / 2;
    if (write(s_pipe, half, (size_t)size) != size)
        return -2;
    LJTRACE_START();
    return write(s_pipe, b, FIRST_SIZE);
}
static long d_writev_part(void)
{
    struct iovec half[2] = {{b, 10000}, {b + 10000, 40000}};
    long result = read(s_drain, (char[5000]){0}, 5000);
    LJTRACE_START();
    return result == 5000 ? writev(s_pipe, half, 2) : -2;
}
static long d_write_full(void)
{
    LJTRACE_START();
    return write(s_pipe, b, 10); /* fails: there is no room */
}
static long d_pwrite(void)
{
    LJTRACE_START();
    return pwrite(s_file, b + 3, 71, 5);
}
static long d_writev(void)
{
    const struct iovec *p = parts();
    LJTRACE_START();
    return writev(s_null, p, 2);
}
static long d_pwritev(void)
{
    const struct iovec *p = parts();
    LJTRACE_START();
    return pwritev(s_file, p, 2, 0);
}
static long d_pwritev2(void)
{
    const struct iovec *p = parts();
    LJTRACE_START();
    return pwritev2(s_file, p, 2, 0, 0);
}
static long d_send(void)
{
    LJTRACE_START();
    return send(s_out, b + 5, 9, 0);
}
static long d_sendmsg(void)
{
    struct msghdr message = {.msg_iov = parts(), .msg_iovlen = 2};
    LJTRACE_START();
    return sendmsg(s_out, &message, 0);
}
static long d_sendmmsg(void)
{
    struct iovec *p = parts();
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = p, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = p + 1, .msg_iovlen = 1}}};
    LJTRACE_START();
    return sendmmsg(s_out, messages, 2, 0);
}
static long d_vm_writev(void)
{
    static char room[64];
    struct iovec from = {b + 5, 9}, to = {room, 9};
    LJTRACE_START();
    return process_vm_writev(getpid(), &from, 1, &to, 1, 0);
}
/* The far end is the program itself. */
static long d_vm_readv(void)
{
    static char room[64];
    struct iovec from[2] = {{b + 5, 9}, {b + 30, 50}}, to = {room, 20};
    LJTRACE_START();
    return process_vm_readv(getpid(), &to, 1, from, 2, 0);
}
static long d_vmsplice(void)
{
    struct iovec part = {b + 4, 6};
    int ends[2];
    if (pipe(ends) != 0)
        return -2;
    LJTRACE_START();
    return vmsplice(ends[1], &part, 1, 0);
}

/* -- texts ----------------------------------------------------------------------------------------------- */

static long d_open(void)
{
    return open(text("/gone/a"), O_RDONLY);
}
static long d_access(void)
{
    return access(text("/gone/ab"), R_OK);
}
static long d_unlink(void)
{
    return unlink(text("/gone/abc"));
}
static long d_chdir(void)
{
    return chdir(text("/gone/abcd"));
}
static long d_execve(void)
{
    char *none[] = {NULL};
    return execve(text("/gone/abcde"), none, none);
}
static long d_rename(void)
{
    strcpy(b + 20, "/gone/there");
    return rename(text("/gone/x"), b + 20);
}
static long d_symlink(void)
{
    strcpy(b + 20, "/gone/there");
    return symlink(text("/gone/x"), b + 20);
}
static long d_stat(void)
{
    static struct stat s;
    return stat(text("/gone/st"), &s);
}
static long d_prctl(void)
{
    return prctl(PR_SET_NAME, text("drained"));
}

/* -- structures ------------------------------------------------------------------------------------------ */

static long d_nanosleep(void)
{
    return nanosleep(AS(struct timespec, {0, 1}), NULL);
}
static long d_setitimer(void)
{
    return setitimer(ITIMER_REAL, AS(struct itimerval, {{0, 0}, {0, 0}}), NULL);
}
static long d_timerfd(void)
{
    return timerfd_settime(s_timer, 0, AS(struct itimerspec, {{0, 0}, {0, 0}}), NULL);
}
static long d_utimensat(void)
{
    static const struct timespec both[2] = {{5, 0}, {6, 0}};
    return syscall(SYS_utimensat, s_file, NULL, with(both, sizeof both), 0);
}
static long d_option(void)
{
    return setsockopt(s_inet, SOL_SOCKET, SO_REUSEADDR, AS(int, {1}), sizeof(int));
}
static long d_bind(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    return bind(s_inet, with(&any, sizeof any), sizeof any);
}
static long d_epoll(void)
{
    return epoll_ctl(s_poller, EPOLL_CTL_ADD, s_out, AS(struct epoll_event, {.events = EPOLLIN}));
}
static long d_futex(void)
{
    return syscall(SYS_futex, AS(int, {5}), FUTEX_WAIT_PRIVATE, 6, NULL, NULL, 0); /* is not 6 */
}
static long d_mask(void)
{
    return syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, AS(uint64_t, {0}), NULL, 8);
}
static long d_limit(void)
{
    return setrlimit(RLIMIT_CORE, AS(struct rlimit, {0, 0}));
}
static long d_sendfile(void)
{
    return sendfile(s_null, s_file, AS(off_t, {1}), 3);
}
static long d_lock(void)
{
    return fcntl(s_file, F_SETLK, AS(struct flock, {.l_type = F_UNLCK, .l_whence = SEEK_SET}));
}
static long d_nonblocking(void)
{
    return ioctl(s_out, FIONBIO, AS(int, {1}));
}
static long d_semop(void)
{
    return semop(s_semaphore, AS(struct sembuf, {0, 1, 0}), 1);
}
static long d_msgsnd(void)
{
    static const struct {
        long type;
        char text[8];
    } message = {3, "hello"};
    return msgsnd(s_queue, with(&message, sizeof message), 5, IPC_NOWAIT);
}
static long d_affinity(void)
{
    syscall(SYS_sched_getaffinity, 0, 128, b);
    LJTRACE_START();
    return syscall(SYS_sched_setaffinity, 0, 128, b);
}
static long d_connect(void)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    return connect(s_inet, with(&none, sizeof none), sizeof none);
}

static const struct drained {
    const char *name;
    long (*call)(void);
    int read[2 * RANGES]; /* offsets and lengths */
} s_calls[] = {
    {"vmsplice", d_vmsplice, {4, 6}},
    {"write", d_write, {3, 70}},
    {"write-bad", d_write_bad, {0}},
    {"write-part", d_write_part, {0, RESULT}},
    {"writev-part", d_writev_part, {0, RESULT}},
    {"write-full", d_write_full, {0}},
    {"pwrite", d_pwrite, {3, 71}},
    {"writev", d_writev, {1, 3, 10, 100}},
    {"pwritev", d_pwritev, {1, 3, 10, 100}},
    {"pwritev2", d_pwritev2, {1, 3, 10, 100}},
    {"send", d_send, {5, 9}},
    {"sendmsg", d_sendmsg, {1, 3, 10, 100}},
    {"sendmmsg", d_sendmmsg, {1, 3, 10, 100}},
    {"process_vm_writev", d_vm_writev, {5, 9}},
    {"process_vm_readv", d_vm_readv, {5, 9, 30, 11}},
    {"open", d_open, {0, 8}},
    {"access", d_access, {0, 9}},
    {"unlink", d_unlink, {0, 10}},
    {"chdir", d_chdir, {0, 11}},
    {"execve", d_execve, {0, 12}},
    {"rename", d_rename, {0, 8, 20, 12}},
    {"symlink", d_symlink, {0, 8, 20, 12}},
    {"stat", d_stat, {0, 9}},
    {"prctl", d_prctl, {0, 8}},
    {"nanosleep", d_nanosleep, {0, 16}},
    {"setitimer", d_setitimer, {0, 32}},
    {"timerfd_settime", d_timerfd, {0, 32}},
    {"utimensat", d_utimensat, {0, 32}},
    {"setsockopt", d_option, {0, 4}},
    {"bind", d_bind, {0, 16}},
    {"epoll_ctl", d_epoll, {0, 12}},
    {"futex", d_futex, {0, 4}},
    {"sigprocmask", d_mask, {0, 8}},
    {"setrlimit", d_limit, {0, 16}},
    {"sendfile", d_sendfile, {0, 8}},
    {"F_SETLK", d_lock, {0, 32}},
    {"FIONBIO", d_nonblocking, {0, 4}},
    {"semop", d_semop, {0, 6}},
    {"msgsnd", d_msgsnd, {0, 13}},
    {"sched_setaffinity", d_affinity, {0, 128}},
    {"connect", d_connect, {0, 16}},
};

static void drain(size_t size, const struct drained *d)
{
    b = calloc(1, size);
    long result = d->call();
    LJTRACE_STOP();
    printf("%zu %s %ld", size, d->name, result);
    for (int i = 0; i < RANGES && d->read[2 * i + 1]; i++)
        printf(" %d %ld", d->read[2 * i], d->read[2 * i + 1] == RESULT ? result : d->read[2 * i + 1]);
    puts("");
}

static void open_all(void)
{
    int pair[2], ends[2];
    FILE *file = tmpfile();
    s_null = open("/dev/null", O_WRONLY);
    s_inet = socket(AF_INET, SOCK_DGRAM, 0);
    s_poller = epoll_create1(0);
    s_timer = timerfd_create(CLOCK_MONOTONIC, 0);
    s_queue = msgget(IPC_PRIVATE, 0600);
    s_semaphore = semget(IPC_PRIVATE, 1, 0600);
    if (!file || s_null < 0 || s_inet < 0 || s_poller < 0 || s_timer < 0 || s_queue < 0 || s_semaphore < 0 ||
        pipe2(ends, O_NONBLOCK) != 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        exit(1);
    s_file = fileno(file);
    s_out = pair[1];
    s_drain = ends[0];
    s_pipe = ends[1];
}

int main(void)
{
    LJTRACE_STOP();
    open_all();
    for (size_t i = 0; i < sizeof s_calls / sizeof *s_calls; i++)
        drain(FIRST_SIZE + i, &s_calls[i]);
    msgctl(s_queue, IPC_RMID, NULL);
    semctl(s_semaphore, 0, IPC_RMID);
    return 0;
}
