/* loadable.c - looks at a program before it is started: does it load a preloaded library? See loadable.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A static program ignores LD_PRELOAD. A loader of another C library tries to load the recorder's library, fails, and
 * ends the program; that of a 32-bit program complains on the program's standard error. If the program gains privileges,
 * glibc ignores the variable, and the program inherits it. So such programs are started without it.
 *
 * The file is found as by execvp, and the interpreters of scripts as by the kernel. What cannot be read, or is unknown here
 * (binfmt_misc), is started as if it loaded the library. A loader that is started as a command (ld.so PROGRAM) loads it.
 */
#define _GNU_SOURCE
#include "ljtrace/native/launcher/loadable.h"

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
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

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

const char *loadable_refusal(const char *name, const char *library)
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
