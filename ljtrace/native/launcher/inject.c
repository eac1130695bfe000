/* inject.c - have a running process load the library and call one of its functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ptrace stops one thread after the other, briefly, to inspect its stack. At a safe point it
 * is sent to a piece of code that saves its registers, calls dlopen, dlsym and the function, and restores all registers
 * itself. So nothing depends on this process from then on: if it is killed, the thread still goes back to where it was.
 * The code needs room that is executable. It is put over _dl_start, with which the dynamic linker has started the
 * program and which is never executed again. Its data (struct work) is on the thread's stack.
 *
 * A system call that was interrupted is made again, as the kernel does after a stop. Some calls, such as epoll_wait, would
 * return EINTR after it, for which not all programs are prepared; they are made again, too. Their timeout begins anew.
 * A thread that has a pending signal is left alone until it has handled it.
 */
#define _GNU_SOURCE
#include "ljtrace/native/launcher/inject.h"
#include "ljtrace/native/launcher/target.h"
#include <cpuid.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* -- a safe point -- */

/* dlopen takes the locks of the dynamic linker and calls malloc, so it must not be called by a thread that is inside
 * either, or it would wait for itself. A thread is at a safe point in code that is not libc's or an allocator's, and in a
 * system call of libc that waits for something outside of the process. Its stack is walked to see that it is neither in
 * the dynamic linker nor in the recorder nor in a signal handler, which may have interrupted any of these. */

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

/* Is the thread neither in malloc nor in the dynamic linker nor in this recorder, nor in a signal handler? It is stopped
 * by ptrace with these registers. */
static bool safe_point(const struct target *t, pid_t thread, const struct user_regs_struct *r)
{
    enum { NEEDED = 64 << 10 };
    const bool in_call = (long long)r->orig_rax >= 0;
    if (target_is_in(&t->loader, r->rip) || target_is_in(&t->library, r->rip))
        return false;
    if ((target_is_in(&t->libc, r->rip) || is_allocators(t, r->rip)) && !(in_call && is_waiting(r)))
        return false;
    return target_has_stack(t, r->rsp, NEEDED) && is_stack_safe(t, thread);
}

/* -- calls -- */

enum { RED_ZONE = 128, PATH_BYTES = 4096, NAME_BYTES = 64, TEXT_BYTES = 256 };
enum { MOST_THREADS = 4096, PATIENCE = 10 /* seconds */, LEGACY_BYTES = 512, HEADER_BYTES = 64 };

/* Errors of system calls that the kernel makes again; programs never see them. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };

/* What the injected code works with; %rbx points to it. The numbers in the code are the offsets. */
struct work {
    uint64_t rax, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rbx; /* 0 to 112 */
    uint64_t flags;                                                                   /* 120 */
    uint64_t resume;                         /* 128: the stack pointer; the address to go on at is there */
    uint64_t dlopen, dlsym, dlerror, errno_; /* 136, 144, 152, 160 */
    uint64_t extended;                       /* 168: where to save the floating-point and vector registers */
    uint64_t has_xsave;                      /* 176 */
    int64_t result;                          /* 184 */
    uint64_t called;                         /* 192: 1 = the function was called */
    uint64_t saved_errno;                    /* 200 */
    char error[TEXT_BYTES];                  /* 208 */
    char text[TEXT_BYTES];                   /* 464 */
    char function[NAME_BYTES];               /* 720 */
    char library[PATH_BYTES];                /* 784 */
};
_Static_assert(offsetof(struct work, resume) == 128 && offsetof(struct work, dlopen) == 136 &&
                   offsetof(struct work, extended) == 168 && offsetof(struct work, error) == 208 &&
                   offsetof(struct work, text) == 464 && offsetof(struct work, function) == 720 &&
                   offsetof(struct work, library) == 784,
               "the code has these offsets");

extern const char injected_code[], injected_end[];

/* The code calls close(-1), which does nothing; ptrace stops there, and the result is read. `ret $128` leaves the red zone
 * below the thread's stack pointer as it is. */
__asm__(".pushsection .rodata\n"
        "injected_code:\n"
        " cld\n"
        " mov $-1, %eax\n mov $-1, %edx\n mov 168(%rbx), %rcx\n"
        " cmpq $0, 176(%rbx)\n je 1f\n"
        " xsave64 (%rcx)\n jmp 2f\n"
        "1: fxsave64 (%rcx)\n"
        "2: call *160(%rbx)\n mov (%rax), %ecx\n mov %rcx, 200(%rbx)\n"
        " lea 784(%rbx), %rdi\n mov $2, %esi\n call *136(%rbx)\n"
        " test %rax, %rax\n je 3f\n"
        " mov %rax, %rdi\n lea 720(%rbx), %rsi\n call *144(%rbx)\n"
        " test %rax, %rax\n je 3f\n"
        " lea 464(%rbx), %rdi\n call *%rax\n"
        " movslq %eax, %rax\n mov %rax, 184(%rbx)\n movq $1, 192(%rbx)\n jmp 5f\n"
        "3: call *152(%rbx)\n test %rax, %rax\n je 5f\n xor %ecx, %ecx\n"
        "4: movb (%rax,%rcx), %dl\n movb %dl, 208(%rbx,%rcx)\n test %dl, %dl\n je 5f\n"
        " inc %ecx\n cmp $254, %ecx\n jb 4b\n"
        "5: call *160(%rbx)\n mov 200(%rbx), %rcx\n mov %ecx, (%rax)\n"
        " mov $3, %eax\n mov $-1, %edi\n syscall\n"
        " mov $-1, %eax\n mov $-1, %edx\n mov 168(%rbx), %rcx\n"
        " cmpq $0, 176(%rbx)\n je 6f\n"
        " xrstor64 (%rcx)\n jmp 7f\n"
        "6: fxrstor64 (%rcx)\n"
        "7: mov 0(%rbx), %rax\n mov 8(%rbx), %rcx\n mov 16(%rbx), %rdx\n mov 24(%rbx), %rsi\n"
        " mov 32(%rbx), %rdi\n mov 40(%rbx), %rbp\n mov 48(%rbx), %r8\n mov 56(%rbx), %r9\n"
        " mov 64(%rbx), %r10\n mov 72(%rbx), %r11\n mov 80(%rbx), %r12\n mov 88(%rbx), %r13\n"
        " mov 96(%rbx), %r14\n mov 104(%rbx), %r15\n"
        " pushq 120(%rbx)\n popfq\n"
        " mov 128(%rbx), %rsp\n mov 112(%rbx), %rbx\n"
        " ret $128\n"
        "injected_end:\n"
        ".popsection\n");

/* -- stopping a thread -- */

static void on_alarm(int signal)
{
    (void)signal; /* it interrupts waitpid */
}

/* Let waitpid fail with EINTR after this time; 0 stops the timer. */
static void set_alarm(time_t seconds)
{
    const struct itimerval timer = {{seconds, 0}, {seconds, 0}};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Is this stop by PTRACE_INTERRUPT, and not by a signal that the thread gets? */
static bool is_interrupt(int status)
{
    return WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP;
}

/* Let a thread that is stopped for something else go on: it gets its signal, or stays stopped with its process. */
static void go_on(pid_t thread, int status, enum __ptrace_request how)
{
    const bool stops_process = status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
    const int signal = status >> 16 || WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    ptrace(stops_process ? PTRACE_LISTEN : how, thread, NULL, (void *)(long)signal);
}

/* Returns false if the thread has ended or the time is over. */
static bool interrupt(pid_t thread)
{
    int status;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0)
        return false;
    for (;;) {
        if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
            return false;
        if (is_interrupt(status))
            return true;
        go_on(thread, status, PTRACE_CONT);
    }
}

/* Detach from a thread that may be running. */
static void leave(pid_t thread)
{
    if (ptrace(PTRACE_DETACH, thread, NULL, NULL) != 0 && interrupt(thread))
        ptrace(PTRACE_DETACH, thread, NULL, NULL);
}

/* -- its registers -- */

/* Has the thread a signal that it will get as soon as it runs? */
static bool has_signal(const struct target *t, pid_t thread)
{
    char path[64], line[256];
    unsigned long long pending = 0, blocked = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", t->pid, thread);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "SigPnd:", 7) == 0 || strncmp(line, "ShdPnd:", 7) == 0)
            pending |= strtoull(line + 7, NULL, 16);
        if (strncmp(line, "SigBlk:", 7) == 0)
            blocked = strtoull(line + 7, NULL, 16);
    }
    if (f)
        fclose(f);
    return pending & ~blocked;
}

/* If the thread was in a system call, it has to be made again. The kernel does not see to that once the registers have
 * changed. */
static void restart_call(struct user_regs_struct *r)
{
    const long long error = (long long)r->orig_rax >= 0 ? -(long long)r->rax : 0;
    if (error == ERESTARTSYS || error == ERESTARTNOINTR || error == ERESTARTNOHAND || error == EINTR)
        r->rax = r->orig_rax;
    else if (error == ERESTART_RESTARTBLOCK)
        r->rax = SYS_restart_syscall;
    else
        return;
    r->rip -= 2; /* to the instruction `syscall` */
}

/* Let a thread that is not used go on as if it had not been stopped: the kernel makes its call again, but for
 * those that fail with EINTR after a stop. */
static void restore_call(pid_t thread, struct user_regs_struct *r)
{
    if ((long long)r->orig_rax < 0 || (long long)r->rax != -EINTR)
        return;
    restart_call(r);
    r->orig_rax = (unsigned long long)-1; /* the kernel restarts nothing */
    ptrace(PTRACE_SETREGS, thread, NULL, r);
}

/* Bytes that XSAVE writes; 0 = the processor does not have it. */
static uint32_t extended_bytes(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !__get_cpuid_count(13, 0, &a, &b, &c, &d))
        return 0;
    return b;
}

/* Write the code. ptrace writes to memory that the process cannot write itself. */
static bool write_code(const struct target *t, pid_t thread)
{
    const size_t n = (size_t)(injected_end - injected_code);
    for (size_t i = 0; i < n; i += sizeof(long)) {
        long word = 0;
        memcpy(&word, injected_code + i, n - i < sizeof word ? n - i : sizeof word);
        if (ptrace(PTRACE_POKETEXT, thread, (void *)(t->cave + i), (void *)word) != 0)
            return false;
    }
    return true;
}

static void save_registers(struct work *w, const struct user_regs_struct *r)
{
    const uint64_t all[] = {r->rax, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->r8,  r->r9,
                            r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rbx, r->eflags};
    memcpy(w, all, sizeof all);
}

/* Prepare the thread's stack, and its registers so that it executes the code. Returns the address of the work; 0 if its
 * memory cannot be written. */
static uint64_t prepare(const struct target *t, struct work *w, struct user_regs_struct *r)
{
    static const char zeros[HEADER_BYTES];
    const uint32_t bytes = extended_bytes();
    restart_call(r);
    save_registers(w, r);
    snprintf(w->text + strlen(w->text), sizeof w->text - strlen(w->text), ":%llx", r->rip);
    w->resume = r->rsp - RED_ZONE - sizeof r->rip;
    const uint64_t at = (w->resume - sizeof *w) & ~63ULL;
    w->extended = (at - (bytes ? bytes : LEGACY_BYTES)) & ~63ULL;
    w->has_xsave = bytes != 0;
    if (!target_write(t, w->resume, &r->rip, sizeof r->rip) || !target_write(t, at, w, sizeof *w) ||
        (bytes && !target_write(t, w->extended + LEGACY_BYTES, zeros, sizeof zeros)))
        return 0;
    r->rbx = at;
    r->rsp = w->extended;
    r->rip = t->cave;
    r->orig_rax = (unsigned long long)-1; /* the kernel restarts nothing */
    return at;
}

/* -- the call -- */

/* Follow the thread to the last system call of the code, where its work is complete. Returns NULL, or why it does not
 * come there; it goes on by itself then. */
static const char *follow(pid_t thread, uint64_t at)
{
    struct user_regs_struct r;
    int status = 0;
    for (;;) {
        go_on(thread, status, PTRACE_SYSCALL);
        if (waitpid(thread, &status, __WALL) != thread)
            return "it has not finished after 10 seconds: it may wait for a lock, or until what it "
                   "records is written; the process goes on by itself, and does it then";
        if (!WIFSTOPPED(status))
            return "the process has ended meanwhile";
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && ptrace(PTRACE_GETREGS, thread, NULL, &r) == 0 &&
            r.rbx == at && r.orig_rax == SYS_close && (int)r.rdi == -1)
            return NULL;
    }
}

/* The thread is at a safe point. */
static const char *call(const struct target *t, pid_t thread, struct user_regs_struct *r, struct work *w)
{
    static char why[TEXT_BYTES + 64];
    const uint64_t at = prepare(t, w, r);
    if (!at || !write_code(t, thread) || ptrace(PTRACE_SETREGS, thread, NULL, r) != 0)
        return "its memory cannot be written";
    set_alarm(PATIENCE);
    const char *wrong = follow(thread, at);
    if (wrong)
        return wrong;
    if (!target_read(t, at, w, sizeof *w))
        return "its memory cannot be read";
    if (w->called)
        return NULL;
    w->error[sizeof w->error - 1] = 0;
    snprintf(why, sizeof why, "it cannot load the library: %s", w->error);
    return why;
}

/* Try it with one thread. Returns false if that was not at a safe point, or has ended. */
static bool try_thread(const struct target *t, pid_t thread, struct work *w, const char **wrong)
{
    static char why[256];
    struct user_regs_struct r;
    if (ptrace(PTRACE_SEIZE, thread, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0) {
        const int error = errno;
        if (error == ESRCH)
            return false;
        /* EPERM: another process traces it, or the thread is just ending */
        const bool is_traced = error == EPERM && !target_is_untraced(t, why, sizeof why);
        *wrong = is_traced ? why : strerror(error);
        return is_traced || error != EPERM;
    }
    const bool usable =
        interrupt(thread) && ptrace(PTRACE_GETREGS, thread, NULL, &r) == 0 && !has_signal(t, thread);
    const bool safe = usable && safe_point(t, thread, &r);
    if (safe)
        *wrong = call(t, thread, &r, w);
    else if (usable)
        restore_call(thread, &r);
    leave(thread);
    return safe;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

const char *inject(const struct target *t, const char *library, const char *function, const char *text,
                   long *result)
{
    static struct work w;
    static pid_t threads[MOST_THREADS];
    const char *wrong = NULL;
    const double until = now() + PATIENCE;
    memset(&w, 0, sizeof w);
    if ((size_t)(injected_end - injected_code) > TARGET_CAVE_BYTES || strlen(library) >= sizeof w.library ||
        strlen(text) + 20 > sizeof w.text)
        return "a path or text is too long";
    w.dlopen = t->dlopen;
    w.dlsym = t->dlsym;
    w.dlerror = t->dlerror;
    w.errno_ = t->errno_location;
    strcpy(w.library, library);
    strcpy(w.function, function);
    strcpy(w.text, text);
    set_alarm(PATIENCE);
    for (unsigned round = 0; now() < until; round++) {
        wrong = NULL;
        const size_t n = target_threads(t, threads, MOST_THREADS);
        for (size_t i = 0; i < n; i++)
            if (try_thread(t, threads[i], &w, &wrong)) {
                set_alarm(0);
                *result = w.result;
                return wrong;
            }
        if (!target_lives(t->pid)) {
            set_alarm(0);
            return "the process has ended";
        }
        /* threads that do the same over and over are not met at the same place again and again */
        usleep(100 + (unsigned)(random() % 2000));
    }
    set_alarm(0);
    return wrong ? wrong : "no thread came to a point where it may load a library within 10 seconds";
}
