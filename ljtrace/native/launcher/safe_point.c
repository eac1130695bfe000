/* safe_point.c - may a stopped thread load a library at this moment?
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * dlopen takes the locks of the dynamic linker and calls malloc, so it must not be called by a thread that is inside
 * either, or it would wait for itself. A thread is at a safe point in code that is not libc's or an allocator's, and in a
 * system call of libc that waits for something outside of the process. Its stack is walked to see that it is neither in
 * the dynamic linker nor in the recorder nor in a signal handler, which may have interrupted any of these.
 */
#include "ljtrace/native/launcher/safe_point.h"

#include <elfutils/libdwfl.h>
#include <linux/futex.h>
#include <sys/syscall.h>

static const short s_waiting[] = {SYS_read,           SYS_write,           SYS_poll,
                                  SYS_readv,          SYS_writev,          SYS_select,
                                  SYS_pause,          SYS_nanosleep,       SYS_accept,
                                  SYS_recvfrom,       SYS_sendto,          SYS_recvmsg,
                                  SYS_sendmsg,        SYS_connect,         SYS_wait4,
                                  SYS_waitid,         SYS_semop,           SYS_msgrcv,
                                  SYS_msgsnd,         SYS_flock,           SYS_rt_sigtimedwait,
                                  SYS_rt_sigsuspend,  SYS_epoll_wait,      SYS_epoll_pwait,
                                  SYS_epoll_pwait2,   SYS_io_getevents,    SYS_io_uring_enter,
                                  SYS_futex,          SYS_clock_nanosleep, SYS_pselect6,
                                  SYS_ppoll,          SYS_accept4,         SYS_recvmmsg,
                                  SYS_sendmmsg,       SYS_semtimedop,      SYS_mq_timedreceive,
                                  SYS_mq_timedsend,   SYS_preadv,          SYS_pread64,
                                  SYS_pwrite64,       SYS_fsync,           SYS_fdatasync,
                                  SYS_restart_syscall};

/* Does the thread wait in a system call? Locks of libc use FUTEX_WAIT; condition variables, semaphores and joins use
 * FUTEX_WAIT_BITSET. */
static bool is_waiting(const struct user_regs_struct *r)
{
    if (r->orig_rax == SYS_futex)
        return (r->rsi & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    for (size_t i = 0; i < sizeof s_waiting / sizeof *s_waiting; i++)
        if (r->orig_rax == (unsigned long long)s_waiting[i])
            return true;
    return false;
}

static bool is_allocators(const struct target *t, uint64_t ip)
{
    for (uint32_t i = 0; i < t->allocator_count; i++)
        if (target_is_in(&t->allocators[i], ip))
            return true;
    return false;
}

/* What a walk over the stack has seen. */
struct walk {
    const struct target *t;
    unsigned frames;
    bool unsafe;
};

static int see_frame(Dwfl_Frame *frame, void *any)
{
    struct walk *w = any;
    Dwarf_Addr ip;
    bool interrupted;
    if (!dwfl_frame_pc(frame, &ip, &interrupted))
        return DWARF_CB_ABORT;
    if ((w->frames++ && interrupted) || target_is_in(&w->t->loader, ip) || target_is_in(&w->t->library, ip))
        w->unsafe = true;
    return w->unsafe ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* Debug information is not needed, and must not be downloaded. */
static int find_no_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                             const char *file, const char *link, GElf_Word crc, char **to)
{
    (void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)to;
    return -1;
}

static bool is_stack_safe(const struct target *t, pid_t thread)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = find_no_debuginfo};
    struct walk w = {t, 0, false};
    Dwfl *dwfl = dwfl_begin(&callbacks);
    const bool known = dwfl && dwfl_linux_proc_report(dwfl, t->pid) == 0 &&
                       dwfl_report_end(dwfl, NULL, NULL) == 0 &&
                       dwfl_linux_proc_attach(dwfl, t->pid, true) >= 0;
    if (known)
        dwfl_getthread_frames(dwfl, thread, see_frame,
                              &w); /* it fails where code of a JIT compiler is reached */
    if (dwfl)
        dwfl_end(dwfl);
    return known && w.frames > 0 && !w.unsafe;
}

bool safe_point(const struct target *t, pid_t thread, const struct user_regs_struct *r)
{
    enum { NEEDED = 64 << 10 };
    const bool in_call = (long long)r->orig_rax >= 0;
    if (target_is_in(&t->loader, r->rip) || target_is_in(&t->library, r->rip))
        return false;
    if ((target_is_in(&t->libc, r->rip) || is_allocators(t, r->rip)) && !(in_call && is_waiting(r)))
        return false;
    return target_has_stack(t, r->rsp, NEEDED) && is_stack_safe(t, thread);
}
