/* raw_syscalls.c - system calls made directly. (see raw_syscalls.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/base/options.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { MFD_CLOEXEC_FLAG = 1, MSG_NOSIGNAL_FLAG = 0x4000, LOCAL_SOCKETS = 1, STREAM_SOCKET = 1 };
enum { SOCKET_CLOEXEC = 02000000, F_DUPFD_COMMAND = 0, F_DUPFD_CLOEXEC_COMMAND = 1030, FD_HIDDEN = 12 };
enum { SOCKET_LEVEL = 1, PASS_RIGHTS = 1, FILE_SIZE_LIMIT = 1 };
enum { SET_SUBREAPER = 36, GET_SUBREAPER = 37, FIRST_PROCESS = 1, CLOSE_RANGE_CALL = 436 };

Long lt_sys(ULong number, ULong a, ULong b, ULong c, ULong d, ULong e, ULong f)
{
    register ULong r10 __asm__("r10") = d;
    register ULong r8 __asm__("r8") = e;
    register ULong r9 __asm__("r9") = f;
    Long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

Int lt_memfd_create(const HChar *name)
{
    return (Int)lt_sys(__NR_memfd_create, (ULong)name, MFD_CLOEXEC_FLAG, 0, 0, 0, 0);
}

/* Shared memory counts as a file, so growing it beyond the limit would end the program by SIGXFSZ. */
Int lt_ftruncate(Int fd, ULong size)
{
    struct vki_rlimit limit, raised;
    if (VG_(getrlimit)(FILE_SIZE_LIMIT, &limit) != 0)
        return -VKI_EINVAL;
    if (limit.rlim_max < size)
        return -VKI_EFBIG;
    raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur < size)
        VG_(setrlimit)(FILE_SIZE_LIMIT, &raised);
    Int result = (Int)lt_sys(__NR_ftruncate, fd, size, 0, 0, 0, 0);
    if (limit.rlim_cur < size)
        VG_(setrlimit)(FILE_SIZE_LIMIT, &limit);
    return result;
}

Long lt_map_over(Addr addr, SizeT size, Int fd)
{
    ULong flags = VKI_MAP_FIXED | (fd >= 0 ? VKI_MAP_SHARED : VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS);
    return lt_sys(__NR_mmap, addr, size, VKI_PROT_READ | VKI_PROT_WRITE, flags, (ULong)(Long)fd, 0);
}

Int lt_socketpair(Int fds[2])
{
    return (Int)lt_sys(__NR_socketpair, LOCAL_SOCKETS, STREAM_SOCKET | SOCKET_CLOEXEC, 0, (ULong)fds, 0, 0);
}

/* Consume a SIGPIPE that the last write has raised. It has to be blocked. */
static void take_back_sigpipe(ULong set)
{
    ULong at_once[2] = {0, 0};
    lt_sys(__NR_rt_sigtimedwait, (ULong)&set, 0, (ULong)at_once, sizeof set, 0, 0);
}

/* Uses write and not send, because programs that restrict their system calls (seccomp) usually allow
 * write. */
static Int write_all(Int fd, const UChar *at, SizeT size)
{
    while (size > 0) {
        Long n = lt_sys(__NR_write, fd, (ULong)at, size, 0, 0, 0);
        if (n == -VKI_EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? (Int)n : -VKI_EPIPE;
        at += n;
        size -= n;
    }
    return 0;
}

Int lt_send(Int fd, const void *buf, SizeT size)
{
    ULong set = 1ULL << (VKI_SIGPIPE - 1), before;
    lt_sys(__NR_rt_sigprocmask, VKI_SIG_BLOCK, (ULong)&set, (ULong)&before, sizeof set, 0, 0);
    Int result = write_all(fd, buf, size);
    if (result == -VKI_EPIPE)
        take_back_sigpipe(set);
    lt_sys(__NR_rt_sigprocmask, VKI_SIG_SETMASK, (ULong)&before, 0, sizeof before, 0, 0);
    return result;
}

/* The structures are the kernel's msghdr and cmsghdr, with room for two descriptors. */
Int lt_send_fds(Int fd, const void *buf, SizeT size, const Int fds[2])
{
    struct {
        ULong length;
        Int level, type;
        Int fds[2];
    } control = {16 + 2 * sizeof(Int), SOCKET_LEVEL, PASS_RIGHTS, {fds[0], fds[1]}};
    struct {
        const void *base;
        ULong length;
    } part = {buf, size};
    struct {
        void *name;
        ULong name_length;
        const void *parts;
        ULong part_count;
        const void *control;
        ULong control_length;
        ULong flags;
    } message = {NULL, 0, &part, 1, &control, sizeof control, 0};
    return (Int)lt_sys(__NR_sendmsg, fd, (ULong)&message, MSG_NOSIGNAL_FLAG, 0, 0, 0);
}

Int lt_receive(Int fd, void *buf, SizeT size)
{
    Long n;
    do
        n = lt_sys(__NR_read, fd, (ULong)buf, size, 0, 0, 0);
    while (n == -VKI_EINTR);
    return (Int)n;
}

/* Valgrind reserves the last FD_HIDDEN descriptors below the limit; the program cannot use them. */
Int lt_hide_fd(Int fd)
{
    struct vki_rlimit limit;
    if (VG_(getrlimit)(VKI_RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= FD_HIDDEN)
        return -1;
    Long hidden = lt_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC_COMMAND, limit.rlim_cur - FD_HIDDEN, 0, 0, 0);
    VG_(close)(fd);
    return hidden < 0 ? -1 : (Int)hidden;
}

Int lt_dup(Int fd)
{
    return (Int)lt_sys(__NR_fcntl, fd, F_DUPFD_COMMAND, 3, 0, 0, 0);
}

Int lt_fork(void)
{
    return (Int)lt_sys(__NR_fork, 0, 0, 0, 0, 0, 0);
}

Int lt_fork_unnoticed(void)
{
    return (Int)lt_sys(__NR_clone, 0, 0, 0, 0, 0, 0);
}

Bool lt_adopts_orphans(void)
{
    Int asked = 0;
    lt_sys(__NR_prctl, GET_SUBREAPER, (ULong)&asked, 0, 0, 0, 0);
    return asked || VG_(getpid)() == FIRST_PROCESS;
}

void lt_adopt_orphans(void)
{
    lt_sys(__NR_prctl, SET_SUBREAPER, 1, 0, 0, 0, 0);
}

void lt_outlive_children(void)
{
    while (lt_sys(__NR_wait4, ~0ULL, 0, 0, 0, 0, 0) != -VKI_ECHILD)
        ;
}

void lt_close_all(void)
{
    lt_sys(CLOSE_RANGE_CALL, 0, ~0U, 0, 0, 0, 0);
}

void lt_setsid(void)
{
    lt_sys(__NR_setsid, 0, 0, 0, 0, 0, 0);
}

void lt_exit(Int status)
{
    for (;;)
        lt_sys(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

/* A program inherits ignored and blocked signals across exec. Give the collector default actions for all
 * signals, but ignore those of the terminal and SIGPIPE, so that ^C ends the traced program and not the
 * recording. */
void lt_default_signals(void)
{
    static const Int ignored[] = {VKI_SIGINT,  VKI_SIGQUIT, VKI_SIGHUP,  VKI_SIGTERM,
                                  VKI_SIGPIPE, VKI_SIGTSTP, VKI_SIGCHLD, VKI_SIGXFSZ};
    struct {
        void *handler;
        ULong flags;
        void *restorer;
        ULong mask;
    } act = {NULL, 0, NULL, 0};
    for (Int sig = 1; sig <= 64; sig++)
        lt_sys(__NR_rt_sigaction, sig, (ULong)&act, 0, sizeof act.mask, 0, 0);
    act.handler = (void *)1;
    for (SizeT i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        lt_sys(__NR_rt_sigaction, ignored[i], (ULong)&act, 0, sizeof act.mask, 0, 0);
    lt_sys(__NR_rt_sigprocmask, VKI_SIG_SETMASK, (ULong)&act.mask, 0, sizeof act.mask, 0, 0);
}

/* -- pages in few calls -- */

/* The first access to a page is a fault. It takes half a microsecond on bare metal and ten on some virtual
 * machines, and a run of one second had 20,000 of them, few of them the program's own. If most of a piece of
 * memory will be used (the tool's variables, the ring's slabs, Valgrind's heap, translations and their
 * tables), the kernel is asked to populate all its pages by one call, which takes a tenth of the time.
 * MADV_POPULATE_WRITE exists since Linux 5.14; with older kernels nothing changes. The program's memory is
 * never populated here. Huge pages were tried instead, but the code ran slower. */

enum { POPULATE_WRITE_ADVICE = 23, GET_SECCOMP = 21, SET_SECCOMP = 22 };

/* Larger pieces may remain mostly empty. Translations have 10 MiB; a superblock of Valgrind's heap has 1 or
 * 4. */
#define MOST_NEEDED ((SizeT)16 << 20)

/* A piece of memory that Valgrind has mapped for itself. */
struct piece {
    Addr from;
    SizeT size;
};

static Bool s_started;
static Bool s_forbidden; /* the program has restricted its system calls */
/* Pieces from before the start. If there are more, their pages fault as usual. */
static struct piece s_early[4];
static UInt s_early_count;

extern UChar lt_bss_start[] __asm__("__bss_start");
extern UChar lt_bss_end[] __asm__("_end");

SysRes __real_vgPlain_am_mmap_anon_float_valgrind(SizeT size);
SysRes __wrap_vgPlain_am_mmap_anon_float_valgrind(SizeT size);

/* Restrictions are inherited by the programs that a program starts. */
static void look_for_filters(void)
{
    static Bool looked;
    s_forbidden |= !looked && lt_options.successor && lt_sys(__NR_prctl, GET_SECCOMP, 0, 0, 0, 0, 0) != 0;
    looked = True;
}

void lt_prefault_needed(Addr from, SizeT size)
{
    look_for_filters();
    if (!s_forbidden)
        lt_sys(__NR_madvise, from, size, POPULATE_WRITE_ADVICE, 0, 0, 0);
}

static void prepare(const struct piece *p)
{
    if (p->size <= MOST_NEEDED)
        lt_prefault_needed(p->from, p->size);
}

void lt_prefault_before(UInt number, const UWord *args)
{
    s_forbidden |= number == __NR_seccomp || (number == __NR_prctl && args[0] == SET_SECCOMP);
}

Bool lt_prefault_may_call(void)
{
    look_for_filters();
    return !s_forbidden;
}

void lt_prefault_start(void)
{
    const Addr from = VG_PGROUNDUP((Addr)lt_bss_start), to = VG_PGROUNDDN((Addr)lt_bss_end);
    s_started = True;
    lt_prefault_needed(from, to - from);
    for (UInt i = 0; i < s_early_count; i++)
        prepare(&s_early[i]);
}

/* Maps all memory that Valgrind needs for itself. */
SysRes __wrap_vgPlain_am_mmap_anon_float_valgrind(SizeT size)
{
    const SysRes result = __real_vgPlain_am_mmap_anon_float_valgrind(size);
    if (sr_isError(result))
        return result;
    const struct piece piece = {sr_Res(result), size};
    if (s_started)
        prepare(&piece);
    else if (s_early_count < sizeof s_early / sizeof s_early[0])
        s_early[s_early_count++] = piece;
    return result;
}
