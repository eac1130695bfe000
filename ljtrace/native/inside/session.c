/* session.c - begins the recording when the library is loaded or attached, and ends it; threads, unloaded objects, exec.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector writes how the program has ended, since no code of the program runs last for sure.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/session.h"
#include "config.h"
#include "ljtrace/native/inside/alloc_patch.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/copy.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/existing.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/heap.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/native/inside/lua_snapshot.h"
#include "ljtrace/native/inside/lua_stack.h"
#include "ljtrace/protocol/local_socket.h"
#include "ljtrace/native/inside/lua_states.h"
#include "ljtrace/native/inside/maps.h"
#include "ljtrace/native/inside/pool_patch.h"
#include "ljtrace/native/inside/resizes.h"
#include "ljtrace/native/inside/objects.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/native/inside/stack_sampler.h"
#include "ljtrace/native/inside/unseen.h"
#include "ljtrace/native/unwind/stack_memory.h"
#include "ljtrace/protocol/pool_settings.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAME_BYTES = 16, TEXT_BYTES = 8192 };

struct recording native_options;
struct native_process native_process;

static pthread_key_t s_thread_ends;
static bool s_preloaded;         /* by ljtrace run */
static bool s_is_late;           /* the library was loaded while the program ran */
static bool s_prepared;          /* the handlers are registered */
static char s_usual[NAME_BYTES]; /* the name of threads that nobody has named: the program's */

/* -- threads -- */

/* Write the thread's name, if it has one of its own. The ring is locked. */
static void put_name(void)
{
    char name[NAME_BYTES] = "", key[sizeof "thread " + 10];
    const uint32_t number = native_thread(); /* 0 = it is not in the trace */
    if (!number || native_is_sandboxed() || prctl(PR_GET_NAME, name) != 0 || !name[0] ||
        strcmp(name, s_usual) == 0)
        return;
    native_digits(stpcpy(key, "thread "), number);
    native_put_fact(key, name);
}

static void thread_ends(void *any)
{
    (void)any;
    if (!native_ring_lock())
        return;
    put_name();
    native_ring_unlock();
}

void native_thread_begins(void)
{
    pthread_setspecific(s_thread_ends, &native_options); /* any value: the key has a destructor */
}

/* -- objects -- */

void native_object_closed(void)
{
    if (!native_ring_lock())
        return;
    native_stacks_restart();
    native_objects_unmapped();
    lua_stack_forget();
    native_ring_unlock();
}

/* -- exec -- */

/* A child of vfork shares the memory of its parent, but its exec does not end the parent's program. */
static bool is_own_process(void)
{
    return native_is_on() && !native_is_sandboxed() && (uint32_t)syscall(SYS_getpid) == native_process.id;
}

/* The program is about to be replaced; begins = false: that has failed. */
static void put_exec(bool begins)
{
    if (native_is_on() && !native_is_sandboxed() && !is_own_process())
        native_ring_started(begins);
    if (begins && is_own_process())
        lua_states_settle();
    if (!is_own_process() || !native_ring_lock())
        return;
    if (begins)
        put_name();
    if (begins)
        maps_look(NULL, 0);
    NATIVE_PUT(exec, .begins = begins, .instructions = native_now());
    native_ring_unlock();
}

#define EXEC(name, parameters, arguments)                                                                    \
    NATIVE_PUBLIC int name parameters                                                                        \
    {                                                                                                        \
        int(*real) parameters = (int(*) parameters)native_next(#name);                                       \
        put_exec(true);                                                                                      \
        const int result = real arguments;                                                                   \
        put_exec(false);                                                                                     \
        return result;                                                                                       \
    }
EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))

#define SPAWN(name)                                                                                          \
    NATIVE_PUBLIC int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,          \
                           const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])      \
    {                                                                                                        \
        typeof(name) *const real = (typeof(name) *)native_next(#name);                                       \
        const int result = real(pid, path, actions, attributes, argv, envp);                                 \
        if (result == 0 && native_is_on() && !native_is_sandboxed())                                         \
            native_ring_started(true);                                                                       \
        return result;                                                                                       \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

/* The arguments of execl and its relatives, up to NULL, as the array argv. The rest of the list follows. */
#define COLLECT(first, count, list)                                                                          \
    size_t count = 1;                                                                                        \
    va_list list;                                                                                            \
    va_start(list, first);                                                                                   \
    while (va_arg(list, const char *))                                                                       \
        count++;                                                                                             \
    va_end(list);                                                                                            \
    char *argv[count + 1];                                                                                   \
    va_start(list, first);                                                                                   \
    argv[0] = (char *)(uintptr_t)first;                                                                      \
    for (size_t i = 1; i <= count; i++)                                                                      \
        argv[i] = va_arg(list, char *);

NATIVE_PUBLIC int execl(const char *path, const char *first, ...)
{
    COLLECT(first, count, list)
    va_end(list);
    return execv(path, argv);
}

NATIVE_PUBLIC int execlp(const char *file, const char *first, ...)
{
    COLLECT(first, count, list)
    va_end(list);
    return execvp(file, argv);
}

NATIVE_PUBLIC int execle(const char *path, const char *first, ...)
{
    COLLECT(first, count, list)
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, environment);
}

/* -- exit -- */

/* What is known at the end only: what was not recorded. */
static void report_unseen(void)
{
    alloc_patch_end();
    pool_patch_end();
    unseen_end();
}

/* Before _exit: have the collector look at the pages, unless this is a child of vfork, whose memory is its
 * parent's. The caller may have interrupted anything, also the recorder; then there is no look. */
static void look_before_exit(void)
{
    if (!native_options.pages || !native_is_on() || native_ring_is_mine() || !native_ring_may_call() ||
        !is_own_process() || !native_ring_try_lock())
        return;
    maps_look(NULL, 0);
    native_ring_unlock();
}

/* is_sure: this is no child of vfork. The program may have forbidden system calls by a filter that the collector
 * has not seen yet. So at exit, and with --pages at _exit, they are made only when the collector has looked, and
 * else none at _exit. */
static void exiting(int status, bool is_sure)
{
    if (native_is_on() && !native_is_sandboxed())
        lua_states_settle();
    if (!is_sure)
        look_before_exit();
    if (is_sure && native_is_on() && native_ring_may_call()) {
        report_unseen();
        if (native_ring_lock()) {
            maps_look(NULL, 0);
            native_ring_unlock();
        }
    }
    native_ring_exiting(status, is_sure);
}

static void on_exit_status(int status, void *any)
{
    (void)any;
    exiting(status, true);
}

NATIVE_PUBLIC void _exit(int status)
{
    exiting(status, false);
    for (;;)
        syscall(SYS_exit_group, status);
}

NATIVE_PUBLIC void _Exit(int status)
{
    _exit(status);
}

/* -- the beginning -- */

/* The command line with a space between arguments, or a link of /proc. Returns the text. */
static const char *read_command(char *to)
{
    size_t n = kernel_read_text("/proc/self/cmdline", to, TEXT_BYTES);
    while (n > 0 && to[n - 1] == 0)
        n--;
    for (size_t i = 0; i < n; i++)
        if (to[i] == 0)
            to[i] = ' ';
    return to;
}

static const char *read_executable(char *to)
{
    const ssize_t n = readlink("/proc/self/exe", to, TEXT_BYTES - 1);
    to[n > 0 ? n : 0] = 0;
    return to;
}

/* Find a variable of the environment. Returns NULL if it is not set. */
static char *find_variable(char **environment, const char *name)
{
    const size_t n = strlen(name);
    for (char **at = environment; *at; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
            return *at + n + 1;
    return NULL;
}

/* The environment at the start of the program, before libc knows it; NULL later. */
static char **s_first_environment;

static void put_settings(void)
{
    char **environment = s_first_environment ? s_first_environment : environ;
    char key[64];
    for (unsigned i = 0; i < POOL_SETTINGS; i++) {
        const char *value = environment ? find_variable(environment, pool_settings[i]) : NULL;
        snprintf(key, sizeof key, POOL_SETTING_FACT "%s", pool_settings[i]);
        if (value)
            native_put_fact(key, value);
    }
}

static void put_facts(void)
{
    TABLE(char, text, TEXT_BYTES);
    native_put_fact("tool", "ljtrace " PACKAGE_VERSION);
    native_put_fact("recorder", "native");
    native_put_fact("time_unit", "nanoseconds");
    if (native_options.attached)
        native_put_fact("attached", "yes");
    unseen_put_facts();
    native_put_number("pid", native_process.id);
    native_put_fact("command", read_command(text));
    native_put_fact("executable", read_executable(text));
    native_put_number("start_unix_seconds", (uint64_t)time(NULL));
    native_put_fact("trace_mem", "no");
    native_put_fact("trace_freed", "no");
    native_put_number("stack_depth", native_options.depth);
    alloc_patch_put_facts();
    if (native_options.universe)
        native_put_fact("universe", native_options.universe == UNIVERSE_GROWING ? "growing" : "now");
    if (native_options.pages)
        native_put_fact("look_at_pages", "yes");
    if (native_options.drops)
        native_put_fact("when_full", "drop");
    if (native_options.sample_stacks)
        native_put_number("sample_stacks", native_options.sample_stacks);
    put_settings();
    if (!block_sample_mean)
        return;
    native_put_number("sample_mean", block_sample_mean);
    native_put_number("sample_seed", block_sample_seed());
}

/* Register what is called at the end of threads, at exits and at forks: once. */
static bool prepare(void)
{
    if (!s_prepared)
        s_prepared =
            pthread_key_create(&s_thread_ends, thread_ends) == 0 && on_exit(on_exit_status, NULL) == 0;
    if (s_prepared)
        native_follow_forks();
    return s_prepared;
}

/* The name of the first thread. */
static void read_usual_name(void)
{
    const size_t n = kernel_read_text("/proc/self/comm", s_usual, sizeof s_usual);
    s_usual[n > 0 && s_usual[n - 1] == '\n' ? n - 1 : 0] = 0;
}

/* Tell the collector where the tables are. */
static void own_tables(void)
{
    const void *at;
    for (int lasting = 0; lasting <= 1; lasting++) {
        const size_t bytes = tables_place(lasting, &at);
        native_own(at, bytes);
    }
}

/* Has the process a limit that allows so many bytes, but not with what else it has? */
static bool is_limited(size_t size)
{
    struct rlimit all, data;
    if (kernel_call(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&all, 0, 0) != 0 ||
        kernel_call(SYS_prlimit64, 0, RLIMIT_DATA, 0, (long)&data, 0, 0) != 0)
        return false;
    return (all.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY) && size < all.rlim_cur &&
           size < data.rlim_cur;
}

/* Can the program get as much memory as the tables take? If its memory is limited, it may have no use for less. */
static bool leaves_room(void)
{
    const void *at;
    const size_t bytes = tables_place(true, &at) + tables_place(false, &at);
    if (!is_limited(0))
        return true;
    void *probe =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return probe != MAP_FAILED && munmap(probe, bytes) == 0;
}

/* Begin a recording into this ring. Returns false if that is not possible. */
static bool recording_begin(int memfd)
{
    struct recording asked;
    if (!native_ring_read(memfd, &asked))
        return false;
    asked.lua_api |= native_options.lua_api; /* this lasts as long as the process */
    native_options = asked;
    native_process.id = (uint32_t)getpid();
    native_process.patches = true;
    read_usual_name();
    s_is_late = native_options.attached && !s_preloaded;
    native_clock_restart();
    tables_map(); /* again, after another recording */
    native_is_starved = false;
    unseen_begin();
    if (!tables_are_mapped() || !leaves_room() || !prepare())
        return false;
    if (!(native_options.attached ? native_ring_attach(memfd) : native_ring_map(memfd) && native_ring_lock()))
        return false;
    stack_memory_from((uint64_t)(uintptr_t)__builtin_frame_address(0)); /* while system calls are permitted */
    alloc_patch_prefixes();
    native_events_restart();
    native_resizes_anew();
    copy_restart();
    native_stacks_restart();
    native_objects_restart();
    native_heap_begin();
    maps_begin();
    own_tables();
    block_sample_begin();
    put_facts();
    native_name(RAW_CUT);
    native_ring_unlock();
    native_objects_update();
    alloc_patch_begin();
    lua_states_init();
    stack_sampler_begin(native_options.sample_stacks);
    if (!native_options.attached)
        got_follow();
    return true;
}

/* End the recording: the program goes on. */
static void recording_end(void)
{
    stack_sampler_end();
    report_unseen();
    if (!native_ring_lock())
        return;
    maps_look(NULL, 0);
    NATIVE_PUT(end, .ending = MT_ENDING_DETACHED, .instructions = native_now());
    native_ring_detach();
    block_sample_end();
    tables_unmap();
    native_ring_unlock();
}

bool native_gives_way(size_t size)
{
    const int error = errno;
    if (!native_is_on() || native_ring_is_mine() || native_process.sandboxed || !is_limited(size))
        return false;
    native_problem(
        "the recording ended early: the program reached its limit of memory (ulimit -v or -d), of which "
        "the recorder had a part");
    ljtrace_native_detach("");
    errno = error;
    return true;
}

void *native_next(const char *name)
{
    return s_is_late ? got_function(name) : dlsym(RTLD_NEXT, name);
}

/* Remove a variable from the environment. */
static void forget_variable(char **environment, const char *name)
{
    const size_t n = strlen(name);
    char **to = environment;
    for (char **from = environment; *from; from++)
        if (strncmp(*from, name, n) != 0 || (*from)[n] != '=')
            *to++ = *from;
    *to = NULL;
}

/* Give LD_PRELOAD its former value in place: what follows this library, if anything does. */
static void restore_preload(char **environment)
{
    char *present = find_variable(environment, "LD_PRELOAD"), *colon = present ? strchr(present, ':') : NULL;
    if (colon)
        memmove(present, colon + 1, strlen(colon));
    else
        forget_variable(environment, "LD_PRELOAD");
}

/* This constructor runs before all others, also before libc's, so it does not use libc's environment. */
__attribute__((constructor)) static void begin(int argc, char **argv, char **environment)
{
    const char *text = find_variable(environment, NATIVE_VARIABLE);
    (void)argc, (void)argv;
    if (!text)
        return;
    const int memfd = atoi(text);
    restore_preload(environment);
    forget_variable(environment, NATIVE_VARIABLE);
    s_preloaded = true;
    s_first_environment = environment;
    if (!recording_begin(memfd))
        tables_unmap(); /* the program gets along without them */
    s_first_environment = NULL;
    close(memfd);
}

/* -- what `ljtrace attach` and `ljtrace detach` call --
 *
 * These functions are called by a thread that was somewhere else, so they leave errno alone (inject.c does) and use
 * nothing that may wait for a lock of the program. */

/* Is the process at the other end this user's or root's? The name of a socket may be anybody's. */
static bool is_trusted(int socket)
{
    struct ucred other;
    socklen_t n = sizeof other;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &n) == 0 &&
           (other.uid == 0 || other.uid == geteuid());
}

/* Get the ring's memory over the abstract socket of that name. Returns -1 on failure, with errno EMFILE if no descriptor is
 * left. */
static int receive_ring(const char *name, size_t n)
{
    const int fd = local_connect(name, n);
    if (fd < 0)
        return -1;
    errno = 0;
    const int memfd = is_trusted(fd) ? local_receive(fd) : -1;
    const bool is_full = memfd < 0 && errno == 0 && fcntl(fd, F_DUPFD_CLOEXEC, 0) < 0;
    close(fd);
    errno = is_full ? EMFILE : errno;
    return memfd;
}

/* Where the thread was interrupted: the number after the colon; 0 = there is none. */
static uint64_t address_in(const char *text)
{
    const char *colon = strchr(text, ':');
    return colon ? strtoull(colon + 1, NULL, 16) : 0;
}

/* text: NAME:ADDRESS, the socket, and where the thread was interrupted. */
NATIVE_PUBLIC int ljtrace_native_attach(const char *text)
{
    const size_t n = strcspn(text, ":");
    if (native_is_on())
        return ATTACHED_BUSY;
    code_patch_interrupted = address_in(text);
    const int memfd = receive_ring(text, n);
    if (memfd < 0)
        return errno == EMFILE ? ATTACHED_NO_DESCRIPTOR : ATTACHED_NO_RING;
    const bool begun = recording_begin(memfd);
    close(memfd);
    if (!begun) {
        tables_unmap();
        return ATTACHED_FAILED;
    }
    if (!got_redirect()) {
        ljtrace_native_detach("");
        return ATTACHED_NO_MAPS;
    }
    if (native_options.existing)
        existing_report();
    lua_states_find();
    if (native_options.universe)
        lua_snapshots_begin(code_patch_interrupted);
    code_patch_interrupted = 0;
    return ATTACHED_DONE;
}

/* text: :ADDRESS, where the thread was interrupted; it is empty where this library calls it. A launcher does not let the program wait for copies: it calls
 * ljtrace_native_reap when they have ended. */
NATIVE_PUBLIC int ljtrace_native_detach(const char *text)
{
    const bool of_launcher = text[0] != 0;
    got_restore();
    if (!native_is_on())
        return ATTACHED_NOT;
    lua_snapshots_end(address_in(text));
    lua_states_end();
    if (!of_launcher)
        copy_end();
    recording_end();
    return copy_is_gone() ? ATTACHED_DONE : ATTACHED_COPIED;
}

NATIVE_PUBLIC int ljtrace_native_reap(const char *text)
{
    (void)text;
    return copy_is_gone() ? ATTACHED_DONE : ATTACHED_COPIED;
}
