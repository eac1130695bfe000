/* filled_rest.c - more system calls that fill memory: names, lists, states, times; see filling.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "filling.h"
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static int s_in, s_out; /* a pair of datagram sockets */
static int s_zero, s_null, s_file, s_proc, s_poller, s_signals, s_timer;

static void send_hello(void)
{
    if (send(s_out, "hello", 5, 0) != 5)
        exit(1);
}

/* A child that has ended. */
static pid_t child(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(3);
    return pid;
}

/* -- data ------------------------------------------------------------------------------------------------ */

static long f_preadv2(void)
{
    struct iovec part = {b + 1, 30};
    return preadv2(s_zero, &part, 1, 0, 0);
}
static long f_recvfrom(void)
{
    static socklen_t size = 100;
    send_hello();
    return recvfrom(s_in, b + 2, 100, 0, NULL, &size);
}
/* A message with a descriptor: data, control data. */
static long f_control(void)
{
    struct iovec data = {b, 10}, sent = {(char[]){"x"}, 1};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.head), &s_null, sizeof s_null);
    struct msghdr out = {
        .msg_iov = &sent, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct msghdr in = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = b + 64, .msg_controllen = 128};
    if (sendmsg(s_out, &out, 0) != 1)
        return -2;
    long result = recvmsg(s_in, &in, 0);
    close(*(int *)(void *)(b + 64 + sizeof(struct cmsghdr)));
    return result;
}
static long f_vm_writev(void)
{
    static char text[64] = "source";
    struct iovec from = {text, 9}, to = {b + 5, 9};
    return process_vm_writev(getpid(), &from, 1, &to, 1, 0);
}
static long f_sendfile(void)
{
    *(off_t *)(b + 16) = 2;
    return sendfile(s_null, s_file, (off_t *)(b + 16), 7);
}
static long f_signalfd(void)
{
    raise(SIGUSR1);
    return read(s_signals, b, 300);
}
static long f_timerfd(void)
{
    struct itimerspec soon = {.it_value = {0, 1}};
    timerfd_settime(s_timer, 0, &soon, NULL);
    return read(s_timer, b + 8, 100);
}

/* -- names and lists ------------------------------------------------------------------------------------- */

static long f_getdents(void)
{
    lseek(s_proc, 0, SEEK_SET);
    return syscall(SYS_getdents64, s_proc, b, 200);
}
static long f_statx(void)
{
    return statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, (struct statx *)b);
}
static long f_fstatat(void)
{
    return fstatat(AT_FDCWD, "/", (struct stat *)b, 0);
}
static long f_getxattr(void)
{
    fsetxattr(s_file, "user.word", "value", 5, 0);
    return fgetxattr(s_file, "user.word", b + 3, 100);
}
static long f_listxattr(void)
{
    return flistxattr(s_file, b + 3, 100);
}
static long f_readlinkat(void)
{
    return readlinkat(AT_FDCWD, "/proc/self/exe", b + 1, 4);
}
static long f_name(void)
{
    return prctl(PR_GET_NAME, b + 4);
}
static long f_groups(void)
{
    return getgroups(20, (gid_t *)b);
}
static long f_users(void)
{
    return getresuid((uid_t *)b, (uid_t *)b + 2, (uid_t *)b + 4);
}
static long f_pages(void)
{
    static char page[4096 * 3] __attribute__((aligned(4096)));
    page[0] = page[5000] = 1;
    return mincore(page, sizeof page, (unsigned char *)b + 7);
}

/* -- what is ready --------------------------------------------------------------------------------------- */

static long f_poll(void)
{
    struct pollfd *p = (struct pollfd *)b;
    p[0] = (struct pollfd){s_zero, POLLIN, 0x7777};
    p[1] = (struct pollfd){s_in, POLLIN, 0x7777};
    return poll(p, 2, 0);
}
static long f_select(void)
{
    fd_set *set = (fd_set *)b;
    FD_ZERO(set);
    FD_SET(s_zero, set);
    FD_SET(s_in, set);
    return select(s_in + 1, set, NULL, NULL, &(struct timeval){0, 0});
}
static long f_epoll_pwait(void)
{
    return epoll_pwait(s_poller, (struct epoll_event *)b, 10, 0, NULL);
}
static long f_sockets(void)
{
    int *pair = (int *)b + 1;
    long result = socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    close(pair[0]);
    close(pair[1]);
    return result;
}
static long f_pipe2(void)
{
    int *ends = (int *)b + 1;
    long result = pipe2(ends, O_CLOEXEC);
    close(ends[0]);
    close(ends[1]);
    return result;
}
static long f_size(void)
{
    return ioctl(s_file, FIOQSIZE, b + 8);
}

/* -- states and times ------------------------------------------------------------------------------------ */

static long f_action(void)
{
    return syscall(SYS_rt_sigaction, SIGUSR2, NULL, b, 8);
}
static long f_stack(void)
{
    return syscall(SYS_sigaltstack, NULL, b + 8);
}
static long f_pending(void)
{
    return syscall(SYS_rt_sigpending, b + 8, 8);
}
static long f_taken(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    raise(SIGUSR1);
    return syscall(SYS_rt_sigtimedwait, &set, b, NULL, 8);
}
static long f_limit(void)
{
    return syscall(SYS_prlimit64, 0, RLIMIT_CORE, NULL, b + 8);
}
static long f_usage(void)
{
    return getrusage(RUSAGE_SELF, (struct rusage *)b);
}
static long f_system(void)
{
    return sysinfo((struct sysinfo *)b);
}
static long f_times(void)
{
    return times((struct tms *)b) > 0;
}
static long f_interval(void)
{
    return getitimer(ITIMER_REAL, (struct itimerval *)b);
}
static long f_timer(void)
{
    return timerfd_gettime(s_timer, (struct itimerspec *)b);
}
static long f_resolution(void)
{
    return syscall(SYS_clock_getres, CLOCK_REALTIME, b + 8);
}
static long f_wait4(void)
{
    return wait4(child(), (int *)b, 0, (struct rusage *)(b + 64)) > 0;
}
static long f_waitid(void)
{
    return syscall(SYS_waitid, P_PID, child(), b, WEXITED, NULL);
}
static long f_priority(void)
{
    return syscall(SYS_sched_getparam, 0, b + 4);
}
static long f_cpu(void)
{
    return syscall(SYS_getcpu, b + 4, b + 12, NULL);
}

static const struct filling s_calls[] = {
    {"preadv2", f_preadv2},
    {"recvfrom", f_recvfrom},
    {"control", f_control},
    {"process_vm_writev", f_vm_writev},
    {"sendfile", f_sendfile},
    {"signalfd", f_signalfd},
    {"timerfd", f_timerfd},
    {"getdents64", f_getdents},
    {"statx", f_statx},
    {"fstatat", f_fstatat},
    {"fgetxattr", f_getxattr},
    {"flistxattr", f_listxattr},
    {"readlinkat", f_readlinkat},
    {"prctl", f_name},
    {"getgroups", f_groups},
    {"getresuid", f_users},
    {"mincore", f_pages},
    {"poll", f_poll},
    {"select", f_select},
    {"epoll_pwait", f_epoll_pwait},
    {"socketpair", f_sockets},
    {"pipe2", f_pipe2},
    {"FIOQSIZE", f_size},
    {"sigaction", f_action},
    {"sigaltstack", f_stack},
    {"sigpending", f_pending},
    {"sigtimedwait", f_taken},
    {"prlimit64", f_limit},
    {"getrusage", f_usage},
    {"sysinfo", f_system},
    {"times", f_times},
    {"getitimer", f_interval},
    {"timerfd_gettime", f_timer},
    {"clock_getres", f_resolution},
    {"wait4", f_wait4},
    {"waitid", f_waitid},
    {"sched_getparam", f_priority},
    {"getcpu", f_cpu},
};

static void open_all(void)
{
    int pair[2];
    struct epoll_event wanted = {.events = EPOLLIN};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    char name[] = "/tmp/filled.XXXXXX";
    s_zero = open("/dev/zero", O_RDONLY);
    s_null = open("/dev/null", O_WRONLY);
    s_file = mkstemp(name);
    unlink(name);
    s_proc = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    s_poller = epoll_create1(0);
    s_signals = signalfd(-1, &set, 0);
    s_timer = timerfd_create(CLOCK_MONOTONIC, 0);
    if (s_zero < 0 || s_null < 0 || s_file < 0 || s_proc < 0 || s_signals < 0 || s_timer < 0 ||
        write(s_file, "0123456789", 10) != 10 || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        exit(1);
    s_in = pair[0];
    s_out = pair[1];
    if (epoll_ctl(s_poller, EPOLL_CTL_ADD, s_out, &wanted) != 0)
        exit(1);
    wanted.events = EPOLLOUT;
    epoll_ctl(s_poller, EPOLL_CTL_MOD, s_out, &wanted);
}

int main(void)
{
    LJTRACE_STOP();
    open_all();
    fill_all(s_calls, sizeof s_calls / sizeof *s_calls);
    return 0;
}
