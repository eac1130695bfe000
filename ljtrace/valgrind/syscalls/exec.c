/* exec.c - let a recorded program exec programs that Valgrind cannot run. (see exec.h)
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
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include <elf.h>

/* -- will the new program be recorded? -- */

/* The rules are the kernel's (fs/exec.c, binfmt_script.c, binfmt_elf.c). The file has to be regular and
 * executable; so have the interpreter of a script, through at most five scripts, and the loader that a
 * program names. Other formats that the kernel may know (binfmt_misc) are not known here. So a program for
 * another machine is refused only if the kernel has no such formats. Two errors are not predicted: the file
 * is open for writing (ETXTBSY), and damage after the header. */

/* Why Valgrind cannot run a program that the kernel can run; reason is NULL if it can. path: the program or,
 * for a script, its interpreter. */
struct lt_exec_obstacle {
    const HChar *reason;
    HChar path[4096];
    Bool unreadable; /* executable but not readable: Valgrind lets the exec fail */
};

enum { HEAD_BYTES = 256, LONGEST_PATH = 4096, SCRIPTS = 5, HEADERS_BYTES = 65536 };
enum { MAY_EXECUTE = 1, AS_EFFECTIVE_USER = 0x200, CLOSE_ON_EXEC = 02000000 };
enum { LONGEST_STRING = 128 << 10, LEAST_ROOM = 128 << 10, MOST_ROOM = 6 << 20 };

/* -- the file ------------------------------------------------------------------------------------------- */

/* Is executing the file forbidden? Returns the errno, or 0. */
static UInt forbidden(const HChar *path)
{
    struct vg_stat status;
    SysRes found = VG_(stat)(path, &status);
    if (sr_isError(found))
        return sr_Err(found);
    if (!VKI_S_ISREG(status.mode))
        return VKI_EACCES;
    Long result =
        lt_sys(__NR_faccessat2, (ULong)VKI_AT_FDCWD, (ULong)path, MAY_EXECUTE, AS_EFFECTIVE_USER, 0, 0);
    /* Any other error means that the kernel or a sandbox does not have this call. */
    return result == -VKI_EACCES ? VKI_EACCES : 0;
}

static Bool changes_privileges(const HChar *path)
{
    struct vg_stat status;
    if (sr_isError(VG_(stat)(path, &status)))
        return False;
    return (status.mode & (VKI_S_ISUID | VKI_S_ISGID)) ||
           lt_sys(__NR_getxattr, (ULong)path, (ULong) "security.capability", 0, 0, 0, 0) > 0;
}

static void hinder(struct lt_exec_obstacle *h, const HChar *path, const HChar *reason)
{
    h->reason = reason;
    VG_(strncpy)(h->path, path, sizeof h->path - 1);
    h->path[sizeof h->path - 1] = 0;
}

/* -- programs ------------------------------------------------------------------------------------------- */

/* Does the kernel have formats of the user? The folder also has two files of its own, and "." and "..". */
static Bool has_own_formats(void)
{
    HChar entries[HEADERS_BYTES / 16];
    UInt names = 0;
    SysRes opened = VG_(open)("/proc/sys/fs/binfmt_misc", VKI_O_RDONLY | VKI_O_NONBLOCK, 0);
    if (sr_isError(opened))
        return False;
    Long n = lt_sys(__NR_getdents64, sr_Res(opened), (ULong)entries, sizeof entries, 0, 0, 0);
    VG_(close)((Int)sr_Res(opened));
    for (Long at = 0; at < n; at += *(UShort *)(entries + at + 16)) /* d_reclen of struct linux_dirent64 */
        names++;
    return names > 4;
}

/* Is executing the loader that a segment names forbidden? Returns the errno, or 0. */
static UInt loader_forbidden(Int fd, const Elf64_Phdr *segment)
{
    HChar path[LONGEST_PATH];
    if (segment->p_filesz < 2 || segment->p_filesz > sizeof path)
        return VKI_ENOEXEC;
    Long n = lt_sys(__NR_pread64, fd, (ULong)path, segment->p_filesz, segment->p_offset, 0, 0);
    return n != (Long)segment->p_filesz || path[n - 1] ? VKI_ENOEXEC : forbidden(path);
}

static UInt segments_forbidden(Int fd, const Elf64_Ehdr *header)
{
    Elf64_Phdr segment;
    if (header->e_phentsize != sizeof segment || header->e_phnum == 0 ||
        header->e_phnum > HEADERS_BYTES / sizeof segment)
        return VKI_ENOEXEC;
    for (UInt i = 0; i < header->e_phnum; i++) {
        ULong at = header->e_phoff + i * sizeof segment;
        if (lt_sys(__NR_pread64, fd, (ULong)&segment, sizeof segment, at, 0, 0) != sizeof segment)
            return VKI_ENOEXEC;
        if (segment.p_type == PT_INTERP)
            return loader_forbidden(fd, &segment);
    }
    return 0;
}

static UInt program_forbidden(Int fd, const Elf64_Ehdr *header, const HChar *path, struct lt_exec_obstacle *h)
{
    if (header->e_ident[EI_CLASS] == ELFCLASS32 &&
        (header->e_machine == EM_386 || header->e_machine == EM_X86_64)) {
        hinder(h, path, "it is a 32-bit program");
        return 0;
    }
    if (header->e_machine != EM_X86_64) {
        hinder(h, path, "it is a program for another machine");
        return has_own_formats() ? 0 : VKI_ENOEXEC;
    }
    if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
        return VKI_ENOEXEC;
    return segments_forbidden(fd, header);
}

/* -- scripts -------------------------------------------------------------------------------------------- */

static Bool is_blank(HChar c)
{
    return c == ' ' || c == '\t';
}

/* The path of a script's interpreter, which is terminated by a zero in place. NULL: the kernel refuses the
 * script. */
static const HChar *interpreter(HChar *head, SizeT n)
{
    SizeT from = 2, to;
    while (from < n && is_blank(head[from]))
        from++;
    for (to = from; to < n && head[to] && head[to] != '\n' && !is_blank(head[to]); to++)
        continue;
    if (to == from || to == HEAD_BYTES)
        return NULL;
    head[to] = 0;
    return head + from;
}

/* -- files ---------------------------------------------------------------------------------------------- */

/* Open a file and read its first bytes, filled up with zeros. Returns the descriptor, or -1. */
static Int open_head(const HChar *path, HChar *head, SizeT *n)
{
    SysRes opened = VG_(open)(path, VKI_O_RDONLY | VKI_O_NONBLOCK | CLOSE_ON_EXEC, 0);
    VG_(memset)(head, 0, HEAD_BYTES + 1);
    if (sr_isError(opened))
        return -1;
    Int fd = (Int)sr_Res(opened);
    Int got = VG_(read)(fd, head, HEAD_BYTES);
    *n = got > 0 ? (SizeT)got : 0;
    return fd;
}

/* exec_check for a file to which this number of scripts has led. */
static UInt runnable_through(const HChar *path, UInt scripts, struct lt_exec_obstacle *h)
{
    HChar head[HEAD_BYTES + 1] __attribute__((aligned(8)));
    SizeT n = 0;
    UInt error = forbidden(path);
    if (error || scripts > SCRIPTS)
        return error ? error : VKI_ELOOP;
    if (changes_privileges(path))
        hinder(h, path, "it is a setuid, setgid or setcap program");
    Int fd = open_head(path, head, &n);
    if (fd < 0)
        h->unreadable = True;
    else if (VG_(memcmp)(head, ELFMAG, SELFMAG) == 0)
        error = program_forbidden(fd, (const Elf64_Ehdr *)head, path, h);
    if (fd >= 0)
        VG_(close)(fd);
    if (n < 2 || head[0] != '#' || head[1] != '!')
        return error;
    if (scripts > 0)
        hinder(h, path, "it is a script's interpreter and a script, whose arguments Valgrind would lose");
    const HChar *next = interpreter(head, n);
    return next ? runnable_through(next, scripts + 1, h) : VKI_ENOEXEC;
}

/* The errno with which the kernel refuses to execute a file; 0 if it does not, or if Valgrind returns the
 * same error. Only regular files are opened. */
static UInt exec_check(const HChar *path, struct lt_exec_obstacle *h)
{
    h->reason = NULL;
    h->unreadable = False;
    return runnable_through(path, 0, h);
}

/* -- arguments ------------------------------------------------------------------------------------------ */

static ULong room_for_arguments(void)
{
    struct vki_rlimit stack;
    if (lt_sys(__NR_getrlimit, VKI_RLIMIT_STACK, (ULong)&stack, 0, 0, 0, 0) != 0)
        return MOST_ROOM;
    ULong room = stack.rlim_cur / 4;
    return room < LEAST_ROOM ? LEAST_ROOM : room > MOST_ROOM ? MOST_ROOM : room;
}

/* The bytes that a vector of strings takes; more than the maximum if a string is too long. */
static ULong vector_bytes(Addr vector)
{
    ULong bytes = 0;
    Addr text;
    while (vector && bytes <= MOST_ROOM && (text = program_number(vector, sizeof text)) != 0) {
        SizeT length = program_text_length(text, LONGEST_STRING);
        if (length >= LONGEST_STRING)
            return MOST_ROOM + 1;
        bytes += length + 1 + sizeof text;
        vector += sizeof text;
    }
    return bytes;
}

/* The same for the size of the arguments and of the environment, which are vectors in the program's
 * memory. */
static UInt exec_check_arguments(Addr path, Addr arguments, Addr environment)
{
    ULong bytes =
        program_text_length(path, LONGEST_PATH) + 1 + vector_bytes(arguments) + vector_bytes(environment);
    return bytes > room_for_arguments() ? VKI_E2BIG : 0;
}

/* -- the call -- */

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

/* A program finds its own path by /proc/self/exe, since Valgrind answers readlink, but the kernel executes what it knows
 * under that name. */
static Bool is_valgrind(const HChar *path)
{
    struct vg_stat own, other;
    return !sr_isError(VG_(stat)("/proc/self/exe", &own)) && !sr_isError(VG_(stat)(path, &other)) &&
           own.dev == other.dev && own.ino == other.ino;
}

static void say_valgrind(const HChar *path)
{
    if (VG_(clo_verbosity) > 0)
        VG_(umsg)
    ("ljtrace: %s is Valgrind's own program here, as with its other tools. If it cannot be executed, execute "
     "the file to which that link leads\n",
     path);
}

void lt_exec_before(UInt number, const UWord *args)
{
    static struct lt_exec_obstacle obstacle;
    HChar path[LONGEST_PATH];
    if (number != __NR_execve)
        return;
    program_text(args[0], path, sizeof path);
    UInt error = exec_check(path, &obstacle);
    if (!error)
        error = exec_check_arguments(args[0], args[1], args[2]);
    if (obstacle.unreadable && VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: %s cannot be executed: Valgrind must be able to read it (chmod +r)\n", path);
    if (error)
        make_fail(error);
    else if (is_valgrind(path))
        say_valgrind(path);
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
