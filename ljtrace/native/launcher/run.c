/* run.c - the command `ljtrace run`: starts the collector and the program, and waits for both.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The program is a child of this process, which does nothing but pass signals on, and ends in the same way as the program
 * when the file is complete.
 */
#define _GNU_SOURCE
#include "config.h"
#include "ljtrace/native/inside/sandbox.h"
#include "ljtrace/native/inside/session.h"
#include "ljtrace/native/launcher/launcher.h"
#include "ljtrace/native/launcher/serve.h"
#include "ljtrace/protocol/trace_name.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* -- can the library be loaded? -- */

/* A static program ignores LD_PRELOAD. A loader of another C library tries to load the recorder's library, fails, and
 * ends the program; that of a 32-bit program complains on the program's standard error. If the program gains privileges,
 * glibc ignores the variable, and the program inherits it. So such programs are started without it.
 *
 * The file is found as by execvp, and the interpreters of scripts as by the kernel. What cannot be read, or is unknown here
 * (binfmt_misc), is started as if it loaded the library. A loader that is started as a command (ld.so PROGRAM) loads it. */

enum { HEAD_BYTES = 256, MOST_SCRIPTS = 5, MOST_SEGMENTS = 4096, LARGEST_FILE = 16 << 20 };
enum { TEXT_BYTES = 2 * PATH_MAX + 200 };
/* What glibc's loader writes for --version, up to the name of the distribution and of the release. */
static const char s_banner[] = "ld.so (", s_release[] = " release version ";
static const char s_usual_path[] = "/bin:/usr/bin"; /* of execvp, if PATH is not set */

static char s_text[TEXT_BYTES];

/* What else records the program. */
#define WITH_VALGRIND "valgrind --tool=ljtrace records it"
#define NO_REMEDY "only 64-bit programs for x86 can be recorded"

static const char *because(const char *path, const char *what, const char *remedy)
{
    snprintf(s_text, sizeof s_text, "%s %s; %s", path, what, remedy);
    return s_text;
}

/* -- the file -- */

/* May this file be executed? */
static bool is_executable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* The path of the file that execvp executes for a name. Returns false if there is none. */
static bool find(const char *name, char *path)
{
    const char *folders = getenv("PATH"), *end;
    if (strchr(name, '/') || !*name)
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_executable(path);
    for (const char *at = folders ? folders : s_usual_path;; at = end + 1) {
        end = strchrnul(at, ':');
        const int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "", name);
        if (n < PATH_MAX && is_executable(path))
            return true;
        if (!*end)
            return false;
    }
}

/* Does the kernel give the program other privileges, so that its loader is careful? */
static bool gains_privileges(const char *path, const struct stat *st)
{
    struct statvfs fs;
    const bool group = (st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
    if ((statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID)) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    if (((st->st_mode & S_ISUID) && st->st_uid != getuid()) || (group && st->st_gid != getgid()))
        return true;
    return getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* -- loaders -- */

/* The release of glibc of which this is the loader, such as 236 for 2.36; 0 = it is none. */
static int glibc_release(const char *file, size_t n)
{
    const char *banner = memmem(file, n, s_banner, sizeof s_banner - 1);
    const size_t left = banner ? n - (size_t)(banner - file) : 0;
    const char *release =
        banner ? memmem(banner, left < 200 ? left : 200, s_release, sizeof s_release - 1) : NULL;
    int major = 0, minor = 0;
    char text[16] = "";
    if (!release || (size_t)(file + n - release) < sizeof s_release - 1 + sizeof text)
        return 0;
    memcpy(text, release + sizeof s_release - 1, sizeof text - 1);
    return sscanf(text, "%d.%d", &major, &minor) == 2 ? 100 * major + minor : 0;
}

/* What a function finds in the bytes of a file; -1 = it cannot be read. */
static int release_of(const char *path, int (*find_in)(const char *file, size_t n))
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int release = -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size < LARGEST_FILE) {
        char *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            release = find_in(file, (size_t)st.st_size);
            munmap(file, (size_t)st.st_size);
        }
    }
    if (fd >= 0)
        close(fd);
    return release;
}

/* The newest release of glibc that a library names as the version of a symbol it needs. */
static int needed_release(const char *file, size_t n)
{
    static const char version[] = "GLIBC_2.";
    int needed = 0;
    for (const char *at = file; (at = memmem(at, n - (size_t)(at - file), version, sizeof version - 1));) {
        int minor = 0;
        for (at += sizeof version - 1; at < file + n && *at >= '0' && *at <= '9' && minor < 100; at++)
            minor = 10 * minor + *at - '0';
        needed = 200 + minor > needed ? 200 + minor : needed;
    }
    return needed;
}

static const char *refusal_of_loader(const char *path, const char *loader, const char *library)
{
    const int release = release_of(loader, glibc_release);
    const char *name = strrchr(loader, '/');
    if (release < 0)
        return NULL;
    if (release == 0)
        return because(path,
                       name && strncmp(name, "/ld-musl", 8) == 0 ? "uses the C library musl"
                                                                 : "does not use glibc",
                       WITH_VALGRIND);
    const int needed = release_of(library, needed_release);
    if (release >= needed)
        return NULL;
    char what[80];
    snprintf(what, sizeof what, "uses glibc %d.%d, and the recorder needs %d.%d", release / 100,
             release % 100, needed / 100, needed % 100);
    return because(path, what, WITH_VALGRIND);
}

/* -- programs -- */

/* Read the path of a program's loader. Returns false if it has none. */
static bool read_loader(int fd, const Elf64_Ehdr *header, char *loader)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < header->e_phnum && i < MOST_SEGMENTS; i++) {
        if (pread(fd, &segment, sizeof segment, (off_t)(header->e_phoff + i * sizeof segment)) !=
            sizeof segment)
            return false;
        if (segment.p_type != PT_INTERP)
            continue;
        const size_t n = segment.p_filesz < PATH_MAX ? segment.p_filesz : 0;
        const ssize_t got = pread(fd, loader, n, (off_t)segment.p_offset);
        loader[got > 0 ? got : 0] = 0;
        return true;
    }
    return false;
}

static const char *refusal_of_program(int fd, const char *path, const Elf64_Ehdr *header, const char *library)
{
    char loader[PATH_MAX];
    if (header->e_ident[EI_CLASS] == ELFCLASS32 &&
        (header->e_machine == EM_386 || header->e_machine == EM_X86_64))
        return because(path, "is a 32-bit program", NO_REMEDY);
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64)
        return because(path, "is a program for another machine", NO_REMEDY);
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return NULL; /* the kernel refuses it */
    if (read_loader(fd, header, loader))
        return refusal_of_loader(path, loader, library);
    return release_of(path, glibc_release) > 0 ? NULL : because(path, "is a static program", WITH_VALGRIND);
}

/* -- scripts -- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The interpreter in the first line of a script. Returns false if it names none. */
static bool read_interpreter(const char *head, size_t n, char *path)
{
    size_t from = 2, to;
    while (from < n && is_blank(head[from]))
        from++;
    for (to = from; to < n && head[to] && head[to] != '\n' && !is_blank(head[to]); to++)
        path[to - from] = head[to];
    path[to - from] = 0;
    return to > from;
}

/* Why the program that execvp would execute for this name does not load this library when it is preloaded, or would fail to,
 * and what to do instead. NULL = it loads it, as far as can be seen; also if the program does not exist. The text is valid
 * until the next call. */
static const char *loadable_refusal(const char *name, const char *library)
{
    char path[PATH_MAX], next[PATH_MAX], head[HEAD_BYTES] __attribute__((aligned(8)));
    if (!find(name, path))
        return NULL;
    for (int scripts = 0; scripts <= MOST_SCRIPTS; scripts++) {
        struct stat st;
        const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        const ssize_t n = fd < 0 ? 0 : read(fd, head, sizeof head);
        const char *refusal = NULL;
        const bool is_elf = n >= (ssize_t)sizeof(Elf64_Ehdr) && memcmp(head, ELFMAG, SELFMAG) == 0;
        if (is_elf)
            refusal = refusal_of_program(fd, path, (const Elf64_Ehdr *)head, library);
        if (fd >= 0)
            close(fd);
        if (refusal)
            return refusal;
        /* The kernel ignores the privileges of a script's own file. */
        if (n < 2 || head[0] != '#' || head[1] != '!')
            return stat(path, &st) == 0 && gains_privileges(path, &st)
                       ? because(path,
                                 "runs with other privileges (set-user-id, set-group-id or capabilities)",
                                 "record a copy without them, or as the user whose privileges it gets")
                       : NULL;
        if (!read_interpreter(head, (size_t)n, next))
            return NULL;
        strcpy(path, next);
    }
    return NULL;
}

/* -- the command -- */

/* Exit statuses, as those of env and nohup. */
enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127, NEEDED = 64 << 20 /* bytes of address space, at most */ };

/* The program and what it inherits. */
struct run {
    struct launcher launcher;
    struct serve serve;
    char library[PATH_MAX];
    char **program;
    int failure;           /* from the child: the error if it cannot execute the program */
    int gate;              /* writing to it lets the child execute the program */
    bool ignores_children; /* SIGCHLD was ignored */
};

static const char s_usage[] =
    "usage: ljtrace run [OPTIONS] PROGRAM [ARGUMENTS]\n"
    "Record all heap events of a program at native speed, without Valgrind.\n"
    "\n" LAUNCHER_HELP
    "  --universe=growing  take a snapshot of all Lua objects each time the heap of a Lua state has\n"
    "                     grown by half since the last; steve universe shows what grew\n"
    "  --lua-api          give each Lua state a global misc with the profilers of ljtrace-lua(3)\n"
    "  --trace-fork=no    do not record children that the program forks; else each has a file\n"
    "                     with its process id in the name\n" SERVE_HELP
    "  -h, --help         show this text\n"
    "  --version          show the version\n";

/* -- options -- */

/* Store the value of an option. Returns what is wrong with it; NULL = nothing. */
static const char *set_option(struct run *r, const char *name, const char *value)
{
    if (strcmp(name, "lua-api") == 0) {
        r->launcher.recording.lua_api = 1;
        return NULL;
    }
    const char *wrong;
    if (serve_option(&r->serve, name, value, &wrong))
        return wrong;
    return launcher_option(&r->launcher, name, value);
}

/* Parse the command line. Returns -1, or the exit status if that was all. */
static int parse(struct run *r, int argc, char **argv)
{
    enum { OTHER, HELP, VERSION };
    static const struct option all[] = {
        LAUNCHER_OPTIONS(OTHER),           {"lua-api", no_argument, NULL, OTHER},   SERVE_OPTIONS(OTHER),
        {"help", no_argument, NULL, HELP}, {"version", no_argument, NULL, VERSION}, {0}};
    static char name[] = "ljtrace run"; /* in what getopt says */
    int index, c;
    argv[0] = name;
    launcher_defaults(&r->launcher);
    while ((c = getopt_long(argc, argv, "+h", all, &index)) != -1) {
        const char *wrong = NULL;
        if (c == HELP || c == 'h')
            return fputs(s_usage, stdout) < 0;
        if (c == VERSION)
            return puts("ljtrace " PACKAGE_VERSION) < 0;
        if (c != OTHER || (wrong = set_option(r, all[index].name, optarg))) {
            if (wrong)
                complain("%s", wrong);
            fputs("Try `ljtrace run --help`; the options of recordings under Valgrind are in `ljtrace "
                  "--help`.\n",
                  stderr);
            return LAUNCHER_FAILED;
        }
    }
    const char *conflict = launcher_conflict(&r->launcher);
    if (conflict) {
        complain("%s", conflict);
        return LAUNCHER_FAILED;
    }
    r->program = argv + optind;
    if (*r->program)
        return -1;
    complain("no program is given; try `ljtrace run --help`");
    return LAUNCHER_FAILED;
}

/* -- the program -- */

/* The exit status if execvp has failed. */
static int status_of(int error)
{
    return error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
}

/* In the child: give the ring's memory a descriptor that no program expects, and that its limit permits. A descriptor may
 * be above a limit that is lowered later. Returns -1 on failure. */
static int high_descriptor(const struct launcher *l)
{
    enum { USUAL = 100 };
    const rlim_t usual = l->descriptors.rlim_cur;
    const int high = fcntl(l->memfd, F_DUPFD, usual < USUAL ? (int)usual : USUAL);
    return high >= 0 ? high : fcntl(l->memfd, F_DUPFD, 3);
}

/* In the child: have the program load the library. Returns false on failure. */
static bool set_environment(const char *library, int memfd)
{
    const char *former = getenv("LD_PRELOAD");
    char ring[16], *preload;
    snprintf(ring, sizeof ring, "%d", memfd);
    return asprintf(&preload, "%s%s%s", library, former ? ":" : "", former ? former : "") >= 0 &&
           setenv(NATIVE_VARIABLE, ring, 1) == 0 && setenv("LD_PRELOAD", preload, 1) == 0;
}

/* In the child: restore the environment. former: LD_PRELOAD; NULL = it was not set. */
static void restore_environment(const char *former)
{
    unsetenv(NATIVE_VARIABLE);
    if (!former || setenv("LD_PRELOAD", former, 1) != 0)
        unsetenv("LD_PRELOAD");
}

/* Report that a program cannot be run, and what may have been meant if there is a file of that name. */
static void complain_of_program(const char *program, int error)
{
    struct stat st;
    const bool there = stat(program, &st) == 0;
    const char *ending = strrchr(program, '.');
    if (there && S_ISDIR(st.st_mode))
        complain("cannot run %s: it is a folder", program);
    else if (there && S_ISREG(st.st_mode) && !(st.st_mode & 0111))
        complain("cannot run %s: it is not executable; a script needs its interpreter: ljtrace run %s %s",
                 program, ending && strcmp(ending, ".lua") == 0 ? "luajit" : "INTERPRETER", program);
    else if (there && error == ENOENT && !strchr(program, '/'))
        complain("cannot run %s: %s in the folders of PATH; the one here is ./%s", program, strerror(error),
                 program);
    else
        complain("cannot run %s: %s", program, strerror(error));
}

/* In the child: wait until the collector is ready, then become the program. If there is no room for the variables, it runs
 * without them. */
static void become_program(const struct run *r, int gate, int failure)
{
    char go;
    const char *present = getenv("LD_PRELOAD"), *former = present ? strdup(present) : NULL;
    const int memfd = high_descriptor(&r->launcher);
    if (read(gate, &go, 1) != 1)
        _exit(LAUNCHER_FAILED);
    if (memfd < 0 || !set_environment(r->library, memfd)) {
        complain("cannot start the program: %s", strerror(errno));
        _exit(LAUNCHER_FAILED);
    }
    launcher_restore(&r->launcher);
    if (r->ignores_children)
        signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &r->launcher.usual, NULL);
    execvp(r->program[0], r->program);
    if (errno == E2BIG) {
        close(memfd);
        restore_environment(former);
        execvp(r->program[0], r->program);
    }
    const int error = errno;
    if (write(failure, &error, sizeof error) < 0)
        complain_of_program(r->program[0], error);
    _exit(status_of(error));
}

/* Fork the child that will be the program. */
static bool fork_child(struct run *r)
{
    int gate[2], failure[2];
    if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(failure, O_CLOEXEC) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        close(gate[1]);
        become_program(r, gate[0], failure[1]);
    }
    close(gate[0]);
    close(failure[1]);
    r->gate = gate[1];
    r->failure = failure[0];
    r->launcher.recording.process = (uint32_t)child;
    return child > 0;
}

/* Remove the file that the recording would have replaced, so that nobody takes it for this run's. */
static void remove_trace(const struct run *r)
{
    struct stat st;
    char *file = trace_name_expand(r->launcher.out, getpid());
    if (file && file[0] != '|' && lstat(file, &st) == 0 && S_ISREG(st.st_mode))
        unlink(file);
    free(file);
}

/* Become a program that cannot be recorded, without the library. Returns the exit status if that fails. */
static int run_unrecorded(const struct run *r, const char *why)
{
    complain("nothing is recorded, and no file is written: %s", why);
    remove_trace(r);
    execvp(r->program[0], r->program);
    const int error = errno;
    complain_of_program(r->program[0], error);
    return status_of(error);
}

/* -- the end -- */

/* Pass signals on to the program until it ends. Returns its status. The terminal sends SIGINT and SIGQUIT to the program
 * as well. */
static int wait_for_program(struct run *r, const sigset_t *signals)
{
    const pid_t program = (pid_t)r->launcher.recording.process;
    int status;
    for (;;) {
        siginfo_t info;
        if (sigwaitinfo(signals, &info) < 0)
            continue;
        if (info.si_signo != SIGCHLD) {
            if (launcher_signalled(&r->launcher, info.si_signo) || serve_signalled(&r->serve, info.si_signo))
                continue;
            if (info.si_code <= 0 || (info.si_signo != SIGINT && info.si_signo != SIGQUIT))
                kill(program, info.si_signo);
            continue;
        }
        launcher_reap(&r->launcher, WNOHANG);
        if (waitpid(program, &status, WNOHANG) == program)
            return status;
    }
}

/* End as the program has: by the same signal, without a second core file, or with its status. */
static int end_like(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    sigset_t all;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

static sigset_t block_signals(struct run *r)
{
    static const int signals[] = {SIGCHLD, SIGINT,  SIGQUIT, SIGTERM,  SIGHUP, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGCONT, SIGWINCH, SIGPIPE};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, &r->launcher.usual);
    r->ignores_children = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
    return set;
}

/* The program inherits the seccomp filters of this process. A child finds out whether they permit the recorder's system
 * calls. */
static bool may_record(void)
{
    int status = 0;
    if (prctl(PR_GET_SECCOMP) <= 0)
        return true;
    const pid_t child = fork();
    if (child == 0)
        _exit(sandbox_try(SANDBOX_RECORD | SANDBOX_FORK | SANDBOX_SAMPLE | SANDBOX_PATCH) ? 0 : 1);
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        return true;
    complain("cannot record here: this process runs under a seccomp filter that does not permit the "
             "recorder's system "
             "calls");
    return false;
}

static void complain_nothing(void)
{
    struct rlimit all, data;
    if (getrlimit(RLIMIT_AS, &all) == 0 && getrlimit(RLIMIT_DATA, &data) == 0 &&
        (all.rlim_cur < NEEDED || data.rlim_cur < NEEDED))
        complain(
            "nothing was recorded, and no file was written: the limit of memory (ulimit -v or -d) leaves no "
            "room for the recorder, which needs %d MB",
            NEEDED >> 20);
    else
        complain(
            "nothing was recorded, and no file was written: the program did not load the recorder's library, "
            "or the arguments and variables leave no room for the recorder's; try valgrind --tool=ljtrace");
}

int main(int argc, char **argv)
{
    static struct run r;
    const int done = parse(&r, argc, argv);
    if (done >= 0)
        return done;
    if (!launcher_part(r.library, sizeof r.library, "libljtrace-native.so")) {
        complain("cannot find the library beside this program");
        return LAUNCHER_FAILED;
    }
    const char *refusal = loadable_refusal(r.program[0], r.library);
    if (refusal)
        return run_unrecorded(&r, refusal);
    const bool prepared = launcher_prepare(&r.launcher);
    const sigset_t signals = block_signals(&r);
    if (!prepared || !may_record() || !launcher_make_ring(&r.launcher, getpid()))
        return LAUNCHER_FAILED;
    if (!fork_child(&r)) {
        complain("cannot start the program: %s", strerror(errno));
        return LAUNCHER_FAILED;
    }
    if (!launcher_start_collector(&r.launcher) || !serve_start(&r.serve, &r.launcher)) {
        close(r.gate); /* the child ends */
        return LAUNCHER_FAILED;
    }
    if (write(r.gate, "", 1) != 1)
        return LAUNCHER_FAILED;
    close(r.gate);
    int error = 0;
    while (read(r.failure, &error, sizeof error) < 0 && errno == EINTR)
        ;
    const int status = wait_for_program(&r, &signals);
    const bool begun = r.launcher.ring->begun;
    launcher_put_end(&r.launcher, RING_EXITED, status);
    launcher_show_messages(&r.launcher);
    launcher_reap(&r.launcher, 0);
    serve_end(&r.serve);
    if (error)
        complain_of_program(r.program[0], error);
    else if (!begun)
        complain_nothing();
    return end_like(status);
}
