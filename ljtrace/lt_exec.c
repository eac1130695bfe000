/* lt_exec.c - programs that Valgrind cannot run, and that a recorded program starts. (host side, no libc; see
 * lt_exec.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * With --trace-children=yes Valgrind makes the exec of a setuid, setgid or setcap program fail (sudo, su,
 * ping), and of any after chroot into a directory without Valgrind, and starts for a 32-bit one a tool that
 * is not there. The program would not do what it does otherwise. So for that exec alone the choice is taken
 * back, and the new program runs without Valgrind. Scripts whose interpreter is such a program and execveat
 * are left to Valgrind.
 */
#include "lt_exec.h"
#include "lt_peek.h"
#include "lt_sys.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { LONGEST_PATH = 4096, CLASS_AT = 4, CLASS_32 = 1, IDENT_BYTES = 5 };

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

static Bool changes_privileges(const HChar *path)
{
    struct vg_stat status;
    if (sr_isError(VG_(stat)(path, &status)))
        return False;
    return (status.mode & (VKI_S_ISUID | VKI_S_ISGID)) ||
           lt_sys(__NR_getxattr, (ULong)path, (ULong) "security.capability", 0, 0, 0, 0) > 0;
}

static Bool is_32_bit(const HChar *path)
{
    HChar ident[IDENT_BYTES] = {0};
    SysRes opened = VG_(open)(path, VKI_O_RDONLY, 0);
    if (sr_isError(opened))
        return False;
    Int n = VG_(read)((Int)sr_Res(opened), ident, IDENT_BYTES);
    VG_(close)((Int)sr_Res(opened));
    return n == IDENT_BYTES && VG_(memcmp)(ident, "\177ELF", CLASS_AT) == 0 && ident[CLASS_AT] == CLASS_32;
}

static Bool is_valgrind_there(void)
{
    struct vg_stat status;
    return VG_(name_of_launcher) && !sr_isError(VG_(stat)(VG_(name_of_launcher), &status));
}

/* Why Valgrind cannot run it; NULL if it can, or will say itself why not. */
static const HChar *hindrance(const HChar *path)
{
    if (!is_valgrind_there())
        return "Valgrind is not there under this root directory";
    if (changes_privileges(path))
        return "it is a setuid, setgid or setcap program";
    if (is_32_bit(path))
        return "it is a 32-bit program";
    return NULL;
}

void lt_exec_before(UInt number, const UWord *args)
{
    HChar path[LONGEST_PATH];
    if (number != __NR_execve || !VG_(clo_trace_children))
        return;
    lt_peek_text(args[0], path, sizeof path);
    const HChar *why = hindrance(path);
    if (!why)
        return;
    if (VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: %s runs unrecorded: %s\n", path, why);
    VG_(clo_trace_children) = False;
    s_taken_back = True;
}

/* An exec that returns has failed. */
void lt_exec_after(UInt number)
{
    if (number == __NR_execve && s_taken_back) {
        VG_(clo_trace_children) = True;
        s_taken_back = False;
    }
}
