/* exec.c - programs that Valgrind cannot run, and that a recorded program starts. (host side, no libc; see
 * exec.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * With --trace-children=yes Valgrind makes the exec of a setuid, setgid or setcap program fail (sudo, su,
 * ping), and of any after chroot into a directory without Valgrind, and starts for a 32-bit one a tool that
 * is not there. The program would not do what it does otherwise. So for that exec alone the choice is taken
 * back, and the new program runs without Valgrind. execveat is left to Valgrind.
 *
 * An exec that fails lets the program go on. Valgrind ends the program if the kernel refuses what Valgrind
 * has found good (an interpreter that is not there, too many arguments), and waits for ever for the other end
 * of a pipe with a name. So an exec that is known to fail is made to fail before that: while no descriptor is
 * to be had, Valgrind cannot open the file and leaves the program alone, which is then given the kernel's
 * errno. For these microseconds other threads get no descriptors, either; no other way leaves the program's
 * memory and files untouched.
 */
#include "ljtrace/tool/syscalls/exec.h"
#include "ljtrace/tool/base/exec_check.h"
#include "ljtrace/tool/base/guest_memory.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { LONGEST_PATH = 4096 };

/* The option is the core's, as is the program that it starts again for each exec, and they are in no tool's
 * header: configure looks for them. */
#if LT_CAN_CHOOSE
extern Bool VG_(clo_trace_children);
extern const HChar *VG_(name_of_launcher);
#else
static Bool VG_(clo_trace_children);
static const HChar *VG_(name_of_launcher);
#endif

static Bool s_taken_back;
static UInt s_error; /* by which the exec is made to fail; 0 = it is not */
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

void lt_exec_before(UInt number, const UWord *args)
{
    static struct lt_hindrance hindrance;
    HChar path[LONGEST_PATH];
    if (number != __NR_execve)
        return;
    lt_peek_text(args[0], path, sizeof path);
    UInt error = lt_runnable(path, &hindrance);
    if (!error)
        error = lt_runnable_with(args[0], args[1], args[2]);
    if (hindrance.unreadable && VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: %s cannot be executed: Valgrind must read it; chmod +r lets it\n", path);
    if (error)
        make_fail(error);
    else if (VG_(clo_trace_children) && !is_valgrind_there())
        run_unrecorded(path, "Valgrind is not there under this root directory");
    else if (VG_(clo_trace_children) && hindrance.reason)
        run_unrecorded(hindrance.path, hindrance.reason);
}

/* An exec that returns has failed. */
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
