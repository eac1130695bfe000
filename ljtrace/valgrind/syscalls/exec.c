/* exec.c - let a recorded program exec programs that Valgrind cannot run. (host side, no libc; see exec.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * With --trace-children=yes, Valgrind makes the exec of a setuid, setgid or setcap program (sudo, su, ping)
 * fail, and that of any program after a chroot into a directory without Valgrind. For a 32-bit program it
 * starts a 32-bit tool, which does not exist. So that the recorded program works as usual, the option is
 * switched off for such an exec, and the new program runs without Valgrind. execveat is left to Valgrind.
 *
 * If an exec fails, the program continues. But if Valgrind has accepted the file and the kernel then refuses
 * it (interpreter missing, too many arguments), Valgrind ends the program. And if the file is a named pipe,
 * Valgrind waits for its other end for ever. So an exec that is bound to fail is made to fail earlier: while
 * the limit on descriptors is 0, Valgrind cannot open the file and returns an error to the program. That
 * error is replaced by the errno that the kernel would have returned. For these microseconds the other
 * threads cannot open descriptors either; every other way would change the program's memory or files.
 */
#include "ljtrace/valgrind/syscalls/exec.h"
#include "ljtrace/luajit/base/guest_memory.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/exec_check.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { LONGEST_PATH = 4096 };

/* configure looks for these variables. */
#if !LT_CAN_CHOOSE
static Bool VG_(clo_trace_children);
static const HChar *VG_(name_of_launcher);
#endif

/* --trace-children was switched off for the exec that is running. */
static Bool s_taken_back;
/* The errno with which the running exec is made to fail; 0 = it is not. */
static UInt s_error;
/* The process was forked from the program that is recorded. */
static Bool s_is_child;
/* The limits on descriptors before they were changed. */
static struct vki_rlimit s_descriptors;

Bool lt_exec_traces_children(void)
{
    return VG_(clo_trace_children);
}

static Bool is_valgrind_there(void)
{
    struct vg_stat status;
    return VG_(name_of_launcher) && !sr_isError(VG_(stat)(VG_(name_of_launcher), &status));
}

static void make_fail(UInt error)
{
    struct vki_rlimit none;
    if (VG_(getrlimit)(VKI_RLIMIT_NOFILE, &s_descriptors) != 0)
        return;
    none = (struct vki_rlimit){0, s_descriptors.rlim_max};
    if (VG_(setrlimit)(VKI_RLIMIT_NOFILE, &none) == 0)
        s_error = error;
}

static void run_unrecorded(const HChar *path, const HChar *reason)
{
    if (VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: %s runs unrecorded: %s\n", path, reason);
    VG_(clo_trace_children) = False;
    s_taken_back = True;
}

void lt_exec_in_child(void)
{
    s_is_child = True;
}

/* A wrapper such as env executes the program that the user means. */
static void say_unrecorded(const HChar *path)
{
    if (LT_CAN_CHOOSE && !s_is_child && VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: %s runs unrecorded: only --trace-children=yes records executed programs\n", path);
}

void lt_exec_before(UInt number, const UWord *args)
{
    static struct lt_exec_obstacle obstacle;
    HChar path[LONGEST_PATH];
    if (number != __NR_execve)
        return;
    lt_guest_text(args[0], path, sizeof path);
    UInt error = lt_exec_check(path, &obstacle);
    if (!error)
        error = lt_exec_check_arguments(args[0], args[1], args[2]);
    if (obstacle.unreadable && VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: %s cannot be executed: Valgrind must be able to read it (chmod +r)\n", path);
    if (error)
        make_fail(error);
    else if (!VG_(clo_trace_children))
        say_unrecorded(path);
    else if (!is_valgrind_there())
        run_unrecorded(path, "Valgrind does not exist under this root directory");
    else if (obstacle.reason)
        run_unrecorded(obstacle.path, obstacle.reason);
}

/* An exec that returns has failed: undo what was changed for it. */
void lt_exec_after(ThreadId tid, UInt number, Long result)
{
    if (number != __NR_execve)
        return;
    if (s_taken_back)
        VG_(clo_trace_children) = True;
    if (s_error)
        VG_(setrlimit)(VKI_RLIMIT_NOFILE, &s_descriptors);
    if (s_error && result == -VKI_EMFILE) {
        ULong error = -(ULong)s_error;
        VG_(set_shadow_regs_area)
        (tid, 0, offsetof(VexGuestAMD64State, guest_RAX), sizeof error, (const UChar *)&error);
    }
    s_taken_back = False;
    s_error = 0;
}
