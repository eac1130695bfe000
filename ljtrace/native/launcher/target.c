/* target.c - a running process to attach to: its objects, its functions, and why it may not be possible.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Everything is read from the memory of the process and not from files: its files may be in another mount namespace, or
 * they may have been replaced since it began.
 */
#define _GNU_SOURCE
#include "ljtrace/native/launcher/target.h"
#include "ljtrace/native/inside/sandbox.h"
#include "ljtrace/native/inside/session.h"
#include "ljtrace/native/launcher/launcher.h"
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TABLE = 16 << 20, MOST_THREADS = 4096, TRACER_LOOKS = 2000 /* one each millisecond */ };

bool target_read(const struct target *t, uint64_t at, void *to, size_t n)
{
    struct iovec here = {to, n}, there = {(void *)at, n};
    return process_vm_readv(t->pid, &here, 1, &there, 1, 0) == (ssize_t)n;
}

bool target_write(const struct target *t, uint64_t at, const void *from, size_t n)
{
    struct iovec here = {(void *)(uintptr_t)from, n}, there = {(void *)at, n};
    return process_vm_writev(t->pid, &here, 1, &there, 1, 0) == (ssize_t)n;
}

static FILE *open_proc(pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return fopen(path, "re");
}

/* -- the state of the process -- */

/* The letter of the state of a process, as in ps: `Z` for a zombie; 0 = it does not exist, or that cannot be read. */
static char state_of(pid_t pid)
{
    char text[512] = "";
    FILE *f = open_proc(pid, "stat");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    const char *end = strrchr(text, ')');
    if (f)
        fclose(f);
    return n && end && end[1] == ' ' ? end[2] : 0;
}

bool target_lives(pid_t pid)
{
    const char state = state_of(pid);
    if (!state) /* it does not exist, or its file cannot be opened: too many are open */
        return kill(pid, 0) == 0 || errno == EPERM;
    return state != 'Z' && state != 'X';
}

size_t target_threads(const struct target *t, pid_t *to, size_t most)
{
    char path[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", t->pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && n < most && (e = readdir(d));)
        if (e->d_name[0] != '.')
            to[n++] = (pid_t)strtol(e->d_name, NULL, 10);
    if (d)
        closedir(d);
    return n;
}

static bool is_running_copy(pid_t process)
{
    char name[32] = "";
    FILE *f = open_proc(process, "comm");
    const bool read = f && fgets(name, sizeof name, f);
    if (f)
        fclose(f);
    const char state = state_of(process);
    return read && strcmp(name, COPY_NAME "\n") == 0 && state && state != 'Z' && state != 'X';
}

bool target_copy_runs(const struct target *t)
{
    static pid_t threads[MOST_THREADS];
    const size_t n = target_threads(t, threads, MOST_THREADS);
    bool runs = false;
    for (size_t i = 0; i < n && !runs; i++) {
        char path[64];
        int child;
        snprintf(path, sizeof path, "/proc/%d/task/%d/children", t->pid, threads[i]);
        FILE *f = fopen(path, "re");
        while (f && !runs && fscanf(f, "%d", &child) == 1)
            runs = is_running_copy(child);
        if (f)
            fclose(f);
    }
    return runs;
}

/* -- who else traces it -- */

/* The process that traces a thread of the process; 0 = there is none. */
static long tracer_of(const struct target *t)
{
    static pid_t threads[MOST_THREADS];
    const size_t n = target_threads(t, threads, MOST_THREADS);
    long tracer = 0;
    for (size_t i = 0; i < n && tracer <= 0; i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "task/%d/", threads[i]);
        tracer = launcher_status(t->pid, folder, "TracerPid");
    }
    return tracer > 0 ? tracer : 0;
}

/* The name of a process; empty if it has ended. */
static void name_process(long pid, char *to, size_t n)
{
    FILE *f = open_proc((pid_t)pid, "comm");
    if (!f || !fgets(to, (int)n, f))
        *to = 0;
    to[strcspn(to, "\n")] = 0;
    if (f)
        fclose(f);
}

bool target_is_untraced(const struct target *t, char *why, size_t n)
{
    char name[32] = "ljtrace";
    long tracer = 0;
    for (int i = 0; i < TRACER_LOOKS && strncmp(name, "ljtrace", 7) == 0; i++) {
        if (i)
            usleep(1000);
        if (!(tracer = tracer_of(t)))
            return true;
        name_process(tracer, name, sizeof name);
        if (!*name) /* it has ended, so it traces nothing */
            strcpy(name, "ljtrace");
    }
    if (strncmp(name, "ljtrace", 7) == 0)
        snprintf(why, n,
                 "another ljtrace, process %ld, has been attaching or detaching for 2 seconds; try again, or "
                 "end it",
                 tracer);
    else
        snprintf(why, n, "process %ld (%s) traces it; end that first", tracer, name);
    return false;
}

/* -- its objects -- */

/* A line of /proc/PID/maps. */
struct mapping {
    uint64_t from, to, offset;
    bool executable;
    char path[PATH_MAX];
};

static bool next_mapping(FILE *maps, struct mapping *m)
{
    char line[PATH_MAX + 128], protection[8];
    int at = 0;
    if (!fgets(line, sizeof line, maps))
        return false;
    sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &m->from, &m->to, protection,
           &m->offset, &at);
    line[strcspn(line, "\n")] = 0;
    m->executable = protection[2] == 'x';
    snprintf(m->path, sizeof m->path, "%s", line + at);
    return true;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool begins_with(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Which of the known objects is this? NULL = none of them. */
static struct target_object *known_object(struct target *t, const char *path)
{
    const char *name = name_of(path);
    if (begins_with(name, "libc.so.6") || begins_with(name, "libc-2."))
        return &t->libc;
    if (begins_with(name, "ld-linux-x86-64.so.2") || begins_with(name, "ld-2."))
        return &t->loader;
    if (begins_with(name, "memfd:" RING_FILE_NAME))
        return &t->ring;
    return begins_with(name, "libljtrace-native.so") ? &t->library : NULL;
}

static uint64_t symbol(const struct target *t, uint64_t base, const char *name);

/* Note an object that has its own malloc: its code may hold locks that dlopen needs. */
static void note_allocator(struct target *t, uint64_t base, uint64_t from, uint64_t to)
{
    const uint64_t at = symbol(t, base, "malloc");
    if (at >= from && at < to && t->allocator_count < TARGET_MOST_ALLOCATORS)
        t->allocators[t->allocator_count++] = (struct target_object){base, from, to};
}

/* Read /proc/PID/maps. Returns false, with errno, if that is not possible. */
static bool find_objects(struct target *t, bool with_allocators)
{
    struct mapping m;
    char path[PATH_MAX] = "";
    uint64_t base = 0;
    FILE *maps = open_proc(t->pid, "maps");
    if (!maps)
        return false;
    while (next_mapping(maps, &m)) {
        struct target_object *o = m.path[0] == '/' ? known_object(t, m.path) : NULL;
        if (m.offset == 0 && strcmp(path, m.path) != 0) {
            base = m.from;
            strcpy(path, m.path);
        }
        if (o && m.offset == 0 && !m.executable)
            *o = (struct target_object){m.from, 0, 0};
        if (o && m.executable) {
            o->from = o->from ? o->from : m.from;
            o->to = m.to;
        } else if (m.executable && m.path[0] == '/' && with_allocators)
            note_allocator(t, base, m.from, m.to);
    }
    fclose(maps);
    return true;
}

bool target_find_library(struct target *t)
{
    t->library = t->ring = (struct target_object){0};
    return find_objects(t, false);
}

bool target_has_stack(const struct target *t, uint64_t sp, uint64_t bytes)
{
    struct mapping m;
    bool has = false;
    FILE *maps = open_proc(t->pid, "maps");
    while (maps && next_mapping(maps, &m))
        if (sp >= m.from && sp < m.to)
            has = strcmp(m.path, "[stack]") == 0 || sp - m.from >= bytes;
    if (maps)
        fclose(maps);
    return has;
}

/* -- its functions -- */

/* What the dynamic section says of an object's symbols. */
struct symbols {
    uint64_t table, strings, hash, string_bytes;
};

static bool read_dynamic(const struct target *t, uint64_t base, struct symbols *s)
{
    Elf64_Ehdr elf;
    Elf64_Phdr segment;
    Elf64_Dyn d = {0};
    uint64_t at = 0;
    memset(s, 0, sizeof *s);
    if (!target_read(t, base, &elf, sizeof elf) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    const uint64_t shift = elf.e_type == ET_DYN ? base : 0;
    for (unsigned i = 0; i < elf.e_phnum; i++)
        if (target_read(t, base + elf.e_phoff + i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_DYNAMIC)
            at = shift + segment.p_vaddr;
    for (; at && target_read(t, at, &d, sizeof d) && d.d_tag != DT_NULL; at += sizeof d) {
        const uint64_t address = d.d_un.d_ptr < shift ? d.d_un.d_ptr + shift : d.d_un.d_ptr;
        if (d.d_tag == DT_SYMTAB)
            s->table = address;
        else if (d.d_tag == DT_STRTAB)
            s->strings = address;
        else if (d.d_tag == DT_GNU_HASH)
            s->hash = address;
        else if (d.d_tag == DT_STRSZ)
            s->string_bytes = d.d_un.d_val;
    }
    return s->table && s->strings && s->hash && s->string_bytes < MOST_TABLE;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t sum = 5381;
    for (; *name; name++)
        sum = sum * 33 + (unsigned char)*name;
    return sum;
}

static bool has_name(const struct target *t, const struct symbols *s, const Elf64_Sym *symbol,
                     const char *name)
{
    char found[64] = "";
    const size_t n = strlen(name) + 1;
    return n <= sizeof found && target_read(t, s->strings + symbol->st_name, found, n) &&
           strcmp(found, name) == 0;
}

/* Find a function by the hash table of an object's symbols. Returns 0 if the object does not define it. */
static uint64_t symbol(const struct target *t, uint64_t base, const char *name)
{
    struct symbols s;
    uint32_t head[4], index, chained;
    Elf64_Ehdr elf;
    Elf64_Sym found;
    const uint32_t hash = gnu_hash(name);
    if (!read_dynamic(t, base, &s) || !target_read(t, s.hash, head, sizeof head) || !head[0] ||
        !target_read(t, base, &elf, sizeof elf))
        return 0;
    const uint64_t buckets = s.hash + sizeof head + 8ULL * head[2], chains = buckets + 4ULL * head[0];
    if (!target_read(t, buckets + 4ULL * (hash % head[0]), &index, sizeof index) || index < head[1])
        return 0;
    do {
        if (!target_read(t, chains + 4ULL * (index - head[1]), &chained, sizeof chained) ||
            !target_read(t, s.table + index * sizeof found, &found, sizeof found))
            return 0;
        if ((chained | 1) == (hash | 1) && found.st_shndx != SHN_UNDEF && has_name(t, &s, &found, name))
            return (elf.e_type == ET_DYN ? base : 0) + found.st_value;
        index++;
    } while (!(chained & 1));
    return 0;
}

/* -- room for code -- */

/* The table of functions that .eh_frame_hdr has. */
struct eh_entry {
    int32_t begin, entry;
};

/* Does a function begin here, and no other within TARGET_CAVE_BYTES? */
static bool is_long_function(const struct target *t, uint64_t base, uint64_t function)
{
    enum { MOST = 1 << 16 };
    struct {
        uint8_t version, frame_coding, count_coding, table_coding;
        int32_t frames;
        uint32_t count;
    } head;
    static struct eh_entry entries[MOST];
    Elf64_Ehdr elf;
    Elf64_Phdr segment;
    uint64_t at = 0;
    bool begins = false;
    if (!target_read(t, base, &elf, sizeof elf))
        return false;
    for (unsigned i = 0; i < elf.e_phnum; i++)
        if (target_read(t, base + elf.e_phoff + i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_GNU_EH_FRAME)
            at = base + segment.p_vaddr;
    if (!at || !target_read(t, at, &head, sizeof head) || head.table_coding != 0x3b || head.count > MOST ||
        !target_read(t, at + sizeof head, entries, head.count * sizeof *entries))
        return false;
    for (uint32_t i = 0; i < head.count; i++) {
        const uint64_t begin = at + (int64_t)entries[i].begin;
        begins |= begin == function;
        if (begin > function && begin < function + TARGET_CAVE_BYTES)
            return false;
    }
    return begins;
}

/* Find _dl_start, which the dynamic linker executes once when the program starts: its entry calls it. */
static uint64_t find_cave(const struct target *t)
{
    Elf64_Ehdr elf;
    uint8_t code[32];
    int32_t distance;
    if (!target_read(t, t->loader.base, &elf, sizeof elf) ||
        !target_read(t, t->loader.base + elf.e_entry, code, sizeof code))
        return 0;
    for (size_t i = 0; i + 5 <= sizeof code; i++)
        if (code[i] == 0xe8) {
            memcpy(&distance, code + i + 1, sizeof distance);
            const uint64_t function = t->loader.base + elf.e_entry + i + 5 + (int64_t)distance;
            return is_long_function(t, t->loader.base, function) ? function : 0;
        }
    return 0;
}

/* -- whether it is possible -- */

bool target_refuse(const struct target *t, const char *why)
{
    complain("cannot attach to process %d: %s", t->pid, why);
    return false;
}

static bool is_possible_now(const struct target *t)
{
    const char state = state_of(t->pid);
    const long process = launcher_status(t->pid, "", "Tgid");
    char why[256];
    if (!state || process < 0)
        return target_refuse(t, "it does not exist");
    if (state == 'Z' || state == 'X')
        return target_refuse(t, "it has ended, and its parent has not taken notice (a zombie)");
    if (process != t->pid) {
        snprintf(why, sizeof why, "this is a thread; give the process, which is %ld", process);
        return target_refuse(t, why);
    }
    if (!target_is_untraced(t, why, sizeof why))
        return target_refuse(t, why);
    if (state == 'T')
        return target_refuse(t, "it is stopped; let it continue by: kill -CONT, or fg in its shell");
    if (t->pid == getpid())
        return target_refuse(t, "this is ljtrace itself");
    return true;
}

/* Is this program of the same architecture? Returns what it is otherwise. */
static const char *other_architecture(const struct target *t)
{
    unsigned char head[20] = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", t->pid);
    errno = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    if (n != sizeof head || memcmp(head, ELFMAG, SELFMAG) != 0)
        return "it is a kernel thread, or its program cannot be read";
    return head[EI_CLASS] == ELFCLASS64 && head[18] == EM_X86_64
               ? NULL
               : "its program is not of x86-64, as the recorder is";
}

/* Is the file of that path the same one for the process? */
static bool sees_file(const struct target *t, const char *path)
{
    char there[PATH_MAX + 32];
    struct stat a, b;
    snprintf(there, sizeof there, "/proc/%d/root%s", t->pid, path);
    return stat(path, &a) == 0 && stat(there, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool refuse_permission(const struct target *t)
{
    char why[512];
    const int error = errno;
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    const int scope = f ? fgetc(f) : '0';
    if (f)
        fclose(f);
    snprintf(why, sizeof why, "%s; %s", strerror(error),
             scope > '0' ? "kernel.yama.ptrace_scope restricts tracing: run ljtrace as root, or "
                           "sysctl kernel.yama.ptrace_scope=0"
                         : "only its user and root may do that: run ljtrace as root, and in a container with "
                           "CAP_SYS_PTRACE");
    return target_refuse(t, why);
}

static bool find_functions(struct target *t)
{
    t->dlopen = symbol(t, t->libc.base, "dlopen");
    t->dlsym = symbol(t, t->libc.base, "dlsym");
    t->dlerror = symbol(t, t->libc.base, "dlerror");
    t->errno_location = symbol(t, t->libc.base, "__errno_location");
    t->cave = find_cave(t);
    return t->dlopen && t->dlsym && t->dlerror && t->errno_location && t->cave;
}

bool target_open(struct target *t, pid_t pid, const char *library)
{
    char why[PATH_MAX + 256];
    uint32_t word;
    *t = (struct target){.pid = pid};
    if (!is_possible_now(t))
        return false;
    if (!find_objects(t, false))
        return refuse_permission(t);
    const char *other = other_architecture(t);
    if (other)
        return errno == EACCES || errno == EPERM ? refuse_permission(t) : target_refuse(t, other);
    if (t->libc.base && !target_read(t, t->libc.base, &word, sizeof word))
        return refuse_permission(t);
    if (!t->libc.base || !t->loader.base)
        return target_refuse(t, "it is a static program, or its C library is not glibc; "
                                "record it from its start by: valgrind --tool=ljtrace");
    if (!sees_file(t, library)) {
        snprintf(why, sizeof why,
                 "it is in another mount namespace (a container), where %s is not the same file; "
                 "run ljtrace inside of it",
                 library);
        return target_refuse(t, why);
    }
    if (!find_functions(t))
        return target_refuse(t, "its C library is older than glibc 2.35; record it from its start by: "
                                "valgrind --tool=ljtrace");
    find_objects(t, true);
    return true;
}

/* -- system calls that it may make -- */

/* The recorder's library makes system calls in the process. A seccomp filter may end the process for them, so filters are
 * read from the kernel and executed before (sandbox.c). Only root may read them. Each thread has its own; threads with the
 * same number of filters are taken to have the same, because filters are inherited and only added. */

enum { ATTEMPTS = 100 };

/* Stop a thread. Returns false if that is not possible. */
static bool thread_stop(pid_t thread)
{
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        return false;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 && waitpid(thread, &status, __WALL) == thread &&
        WIFSTOPPED(status)) {
        if (status >> 16 == PTRACE_EVENT_STOP)
            return true;
        /* a signal came first: the thread gets it when it is left */
        ptrace(PTRACE_DETACH, thread, NULL, (void *)(long)WSTOPSIG(status));
    }
    return false;
}

/* Returns the first call that a filter of a stopped thread does not permit; NULL = there is none. *readable: could the
 * filters be read? The one after the last does not exist. */
static const char *denied_call(pid_t thread, bool *readable)
{
    static struct sock_filter filter[SANDBOX_MOST];
    const uint32_t uses =
        SANDBOX_RECORD | SANDBOX_FORK | SANDBOX_SAMPLE | SANDBOX_DETACH | SANDBOX_ATTACH | SANDBOX_PATCH;
    for (long i = 0;; i++) {
        const long n = ptrace(PTRACE_SECCOMP_GET_FILTER, thread, (void *)i, filter);
        *readable = n >= 0 || (i > 0 && errno == ENOENT);
        const char *denied = n >= 0 ? sandbox_denies(filter, (size_t)n, uses) : NULL;
        if (n < 0 || denied)
            return denied;
    }
}

static bool check_filters(const struct target *t, pid_t thread)
{
    char why[200];
    bool readable = false;
    const char *denied = NULL;
    bool stopped = false;
    for (int i = 0; i < ATTEMPTS && !stopped; i++) {
        if (!target_is_untraced(t, why, sizeof why))
            return target_refuse(t, why);
        stopped = thread_stop(thread);
    }
    if (stopped) {
        denied = denied_call(thread, &readable);
        ptrace(PTRACE_DETACH, thread, NULL, NULL);
    }
    if (denied)
        snprintf(why, sizeof why, "its seccomp filter does not permit %s, which the recorder needs", denied);
    else if (!readable)
        snprintf(
            why, sizeof why,
            "it has a seccomp filter, which may not permit what the recorder needs, and only root can read "
            "it; record it from its start by: ljtrace run");
    return (!denied && readable) || target_refuse(t, why);
}

bool target_permits_calls(const struct target *t)
{
    static pid_t threads[MOST_THREADS];
    const size_t n = target_threads(t, threads, MOST_THREADS);
    long filters = -1;
    pid_t filtered = 0;
    for (size_t i = 0; i < n; i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "task/%d/", threads[i]);
        const long mode = launcher_status(t->pid, folder, "Seccomp");
        const long count = mode > 0 ? launcher_status(t->pid, folder, "Seccomp_filters") : 0;
        if (mode == SECCOMP_MODE_STRICT)
            return target_refuse(t,
                                 "it is in seccomp's strict mode, which ends a process for what the recorder "
                                 "needs");
        if (filters >= 0 && count != filters)
            return target_refuse(t,
                                 "its threads have different seccomp filters; record it from its start by: "
                                 "ljtrace run");
        filters = count;
        filtered = mode > 0 ? threads[i] : filtered;
    }
    return !filtered || check_filters(t, filtered);
}

bool target_has_more_filters(const struct target *t, uint32_t known)
{
    static pid_t threads[MOST_THREADS];
    const size_t n = target_threads(t, threads, MOST_THREADS);
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "task/%d/", threads[i]);
        const long mode = launcher_status(t->pid, folder, "Seccomp");
        const long filters = launcher_status(t->pid, folder, "Seccomp_filters");
        found =
            mode == SECCOMP_MODE_STRICT || (filters >= 0 ? filters > (long)known : mode > 0 && known == 0);
    }
    return found;
}
