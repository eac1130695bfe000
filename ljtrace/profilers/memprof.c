/* memprof.c - the memory profiler: every allocation, resize and free of a Lua state, as a stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The state gets another allocator function, which calls the one it had and writes the event. The stream (version 3):
 *
 *     table of symbols, "ljm" 3 0 0 0, events, 0x80
 *     event: header [place] [old-address old-size] [address size]       header: source << 2 | kind
 *     place: Lua: prototype line; C function: address; trace: number
 *     symbol between events: source << 2, then as in the table
 *
 * The place of an event is the innermost Lua function; a function of the library counts as the line that calls it. A C
 * function that Lua has called is a place of its own. What the collector of garbage and the compiler do is internal.
 *
 * Pointers to dead objects: the running thread of Lua may have been freed after it has returned, so a thread that is freed
 * while it is the running one is no longer looked at.
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace-native.h"
#include "ljtrace/profilers/profiler.h"
#include "ljtrace/profilers/stream.h"
#include "memtrace/memtrace.h"

#include <errno.h>
#include <lua.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { VERSION = 3, BUFFER_BYTES = 1 << 16 };
#define SECOND 1000000000ULL
enum { ALLOC = 1, FREE, REALLOC };
enum { INTERNAL = 1, LUA, C, TRACE };

static struct memprof {
    bool is_running;
    struct lt_vm machine; /* g, layout and at of it */
    lua_State *main;      /* the main thread, which lives as long as the state */
    lua_Alloc original;
    void *original_ud;
    struct luam_Prof_options options;
    uint64_t duration; /* nanoseconds; 0 = no end */
    struct stream *stream;
    uint64_t dead;                /* a thread that was freed while it was the running one; 0 = none */
    volatile sig_atomic_t is_due; /* the duration is over */
    timer_t timer;
    struct sigaction former; /* the former action of the signal */
    int signal;              /* 0 = not used */
} s;

/* Guards start and stop, which may be called by threads with different states. */
static pthread_mutex_t s_mutex = PTHREAD_MUTEX_INITIALIZER;
struct profiler_failure memprof_failure = {"", 0};

static int fail(int status, int number, const char *why)
{
    return profiler_fail(&memprof_failure, status, number, why);
}

/* -- events -- */

/* The innermost function that counts as a place. Returns false if there is none. If a function of Lua is at work but not
 * at a known line, the compiler is. */
static bool find_function(struct machine_frame *f)
{
    struct lt_frames w;
    struct machine_frame caller;
    machine_walk(&w, &s.machine, NULL);
    if (w.L == s.dead || !machine_next(&w, f))
        return false;
    if (f->kind == FRAME_FAST && machine_next(&w, &caller) && caller.kind == FRAME_LUA)
        *f = caller;
    return f->kind != FRAME_LUA || f->line || !f->has_lines;
}

static void put_function_event(uint8_t kind, const struct machine_frame *f)
{
    struct stream *out = s.stream;
    if (f->kind == FRAME_LUA) {
        stream_proto(out, &s.machine, f->proto);
        stream_byte(out, LUA << 2 | kind);
        stream_number(out, f->proto);
        stream_number(out, f->line);
        return;
    }
    stream_function(out, f->code);
    stream_byte(out, C << 2 | kind);
    stream_number(out, f->code);
}

/* Write the header of an event and its place. */
static void put_place(uint8_t kind)
{
    struct machine_frame f;
    uint32_t trace;
    const uint32_t doing = machine_doing(&s.machine, &trace);
    if (doing == MT_VM_TRACE) {
        stream_trace(s.stream, &s.machine, trace);
        stream_byte(s.stream, TRACE << 2 | kind);
        stream_number(s.stream, trace);
    } else if ((doing == MT_VM_INTERP || doing == MT_VM_C || doing == MT_VM_FAST) && find_function(&f))
        put_function_event(kind, &f);
    else
        stream_byte(s.stream, INTERNAL << 2 | kind);
}

static void put_event(const void *old, size_t old_size, const void *new, size_t new_size)
{
    put_place(!old ? ALLOC : new ? REALLOC : FREE);
    if (old) {
        stream_number(s.stream, (uint64_t)(uintptr_t)old);
        stream_number(s.stream, old_size);
    }
    if (new) {
        stream_number(s.stream, (uint64_t)(uintptr_t) new);
        stream_number(s.stream, new_size);
    }
}

/* What is known of addresses may be wrong now. */
static void note_change(const void *old, const void *new)
{
    const uint64_t gone = (uint64_t)(uintptr_t)old;
    if (old && old != new) {
        stream_forget(s.stream, gone);
        if (lt_vm_ref(&s.machine, s.machine.g + s.machine.layout->cur_l) == gone)
            s.dead = gone;
    }
    if (new && (uint64_t)(uintptr_t) new == s.dead)
        s.dead = 0;
}

static int stop(void);

/* The state's allocator function while the profiler runs. */
static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    if (s.is_due) {
        memprof_end_if_due(s.main);
        return s.original(s.original_ud, ptr, osize, nsize);
    }
    void *new = s.original(s.original_ud, ptr, osize, nsize);
    if (!nsize ? ptr != NULL : new != NULL) {
        put_event(ptr, osize, nsize ? new : NULL, nsize);
        note_change(ptr, nsize ? new : NULL);
    }
    return new;
}

/* -- the duration -- */

static void on_signal(int signal)
{
    (void)signal;
    s.is_due = 1;
}

static bool start_timer(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(s.duration / SECOND), .tv_nsec = (long)(s.duration % SECOND)}};
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = s.options.signo ? s.options.signo : SIGPROF;
    s.is_due = 0;
    s.signal = 0;
    if (!s.duration)
        return true;
    if (sigaction(event.sigev_signo, &action, &s.former) != 0)
        return false;
    if (timer_create(CLOCK_MONOTONIC, &event, &s.timer) != 0) {
        sigaction(event.sigev_signo, &s.former, NULL);
        return false;
    }
    s.signal = event.sigev_signo;
    return timer_settime(s.timer, 0, &when, NULL) == 0;
}

static void stop_timer(void)
{
    if (!s.signal)
        return;
    timer_delete(s.timer);
    sigaction(s.signal, &s.former, NULL);
    s.signal = 0;
}

/* -- start and stop -- */

static size_t write_stream(const void **data, size_t size, void *unused)
{
    (void)unused;
    return s.options.writer(*data, size, s.options.arg);
}

static struct stream *make_stream(void)
{
    const size_t size = sizeof(struct stream) + BUFFER_BYTES;
    struct stream *out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (out == MAP_FAILED)
        return NULL;
    stream_begin(out, (uint8_t *)(out + 1), BUFFER_BYTES, write_stream, NULL);
    out->symbol[SYMBOL_LUA] = LUA << 2;
    out->symbol[SYMBOL_C] = C << 2;
    out->symbol[SYMBOL_TRACE] = TRACE << 2;
    stream_table(out, false);
    stream_head(out, "ljm", VERSION);
    stream_flush(out);
    return out;
}

static void free_stream(void)
{
    munmap(s.stream, sizeof(struct stream) + BUFFER_BYTES);
    s.stream = NULL;
}

static bool is_profiled(const lua_State *L)
{
    return s.is_running && machine_is_of(&s.machine, L);
}

static int start(lua_State *L, const struct luam_Prof_options *opt, uint64_t duration)
{
    if (s.is_running)
        return fail(LUAM_PROFILE_ERR, EINVAL, "profiler is running already");
    if (!opt || !opt->writer || !opt->on_stop)
        return fail(LUAM_PROFILE_ERR, EINVAL, "profiler misuse");
    const char *why = machine_find(&s.machine, L);
    if (why)
        return fail(LUAM_PROFILE_ERR, ENOTSUP, why);
    s.options = *opt;
    s.duration = duration;
    s.main = (lua_State *)(s.machine.g - s.machine.layout->thread_size);
    s.stream = make_stream();
    if (!s.stream)
        return fail(LUAM_PROFILE_ERRMEM, ENOMEM, "not enough memory");
    if (s.stream->failed) {
        const int error = s.stream->error;
        free_stream();
        return fail(LUAM_PROFILE_ERRIO, error, "cannot write the profile");
    }
    if (!start_timer()) {
        const int error = errno;
        stop_timer();
        free_stream();
        return fail(LUAM_PROFILE_ERR, error, "cannot start the timer");
    }
    program_forget();
    const uint64_t running = lt_vm_ref(&s.machine, s.machine.g + s.machine.layout->cur_l);
    s.dead = running == (uint64_t)(uintptr_t)L ? 0 : running;
    s.original = lua_getallocf(L, &s.original_ud);
    lua_setallocf(L, allocate, s.original_ud);
    s.is_running = true;
    return LUAM_PROFILE_SUCCESS;
}

static int stop(void)
{
    stop_timer();
    s.is_due = 0;
    s.is_running = false;
    lua_setallocf(s.main, s.original, s.original_ud);
    stream_end(s.stream);
    const bool failed = s.stream->failed;
    const int error = s.stream->error;
    free_stream();
    errno = 0;
    const bool stopped = s.options.on_stop(s.options.arg) == 0;
    if (!stopped)
        return fail(LUAM_PROFILE_ERRIO, failed ? error : errno, "cannot end the profile");
    return failed ? fail(LUAM_PROFILE_ERRIO, error, "cannot write the profile") : LUAM_PROFILE_SUCCESS;
}

void memprof_end_if_due(const lua_State *L)
{
    pthread_mutex_lock(&s_mutex);
    if (is_profiled(L) && s.is_due)
        stop();
    pthread_mutex_unlock(&s_mutex);
}

int memprof_start(lua_State *L, const struct luam_Prof_options *opt, uint64_t duration)
{
    memprof_end_if_due(L);
    const bool is_watched = closing_watch(L); /* not while locked: it may finalize objects */
    pthread_mutex_lock(&s_mutex);
    const int status =
        is_watched ? start(L, opt, duration) : fail(LUAM_PROFILE_ERRMEM, ENOMEM, "not enough memory");
    pthread_mutex_unlock(&s_mutex);
    return status;
}

__attribute__((visibility("default"))) int luaM_memprof_start(lua_State *L,
                                                              const struct luam_Prof_options *opt)
{
    const uint64_t seconds = opt ? opt->dursec : 0, most = UINT64_MAX / SECOND;
    return memprof_start(L, opt, (seconds < most ? seconds : most) * SECOND);
}

__attribute__((visibility("default"))) int luaM_memprof_stop(const lua_State *L)
{
    memprof_end_if_due(L);
    pthread_mutex_lock(&s_mutex);
    int status;
    if (!s.is_running)
        status = fail(LUAM_PROFILE_ERR, EINVAL, "profiler is not running");
    else if (!is_profiled(L))
        status = fail(LUAM_PROFILE_ERR, EINVAL, "profiler runs in another state");
    else
        status = stop();
    pthread_mutex_unlock(&s_mutex);
    return status;
}

__attribute__((visibility("default"))) bool luaM_memprof_isrunning(void)
{
    pthread_mutex_lock(&s_mutex);
    const bool is_running = s.is_running && !s.is_due;
    pthread_mutex_unlock(&s_mutex);
    return is_running;
}

void memprof_closing(lua_State *L)
{
    pthread_mutex_lock(&s_mutex);
    if (is_profiled(L))
        stop();
    pthread_mutex_unlock(&s_mutex);
}
