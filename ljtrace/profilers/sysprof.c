/* sysprof.c - the sampling profiler: the stacks of C and Lua by CPU time, as a stream, and counters.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A timer on the CPU time of the thread that has started it sends a signal, and the handler writes a sample. The stream
 * (version 2):
 *
 *     table of symbols, "ljp" 2 0 0 0, samples, 0x80
 *     sample: state [Lua stack, of states 1 to 3] C stack, or 9 trace prototype line
 *     Lua stack: frames, 0x80: 1 prototype first-line, or 2 address, or 3 number of the library function
 *     C stack: addresses, 0
 *     symbol between samples: 10, 11 or 12, then as in the table
 *
 * In the interpreter, where the current frame and instruction are in registers, these are used only if they fit to each
 * other. If they do not, the values saved in the Lua state are used, which are of this frame or of a caller's.
 *
 * The C functions of all loaded objects are in the table at the beginning. Those of objects that are loaded later are
 * written by the handler, before the first sample with a C stack after that.
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace-native.h"
#include "ljtrace/native/unwind/frame_rules.h"
#include "ljtrace/native/inside/cpu_timer.h"
#include "ljtrace/native/unwind/unwind.h"
#include "ljtrace/profilers/profiler.h"
#include "ljtrace/profilers/stream.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

#include <errno.h>
#include <lua.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { VERSION = 2, MOST_FRAMES = 512, LUA_FRAME_END = 0x80, LEAST_BUFFER = 64 };
#define MILLISECOND 1000000ULL
#define LONGEST_INTERVAL (1ULL << 32) /* milliseconds */

static luam_Sysprof_writer s_writer;
static luam_Sysprof_on_stop s_on_stop;
static luam_Sysprof_backtracer s_backtracer;
static bool s_has_backtracer; /* one was set, NULL means the built-in one */

static struct sysprof {
    bool is_running;
    struct lt_vm machine; /* g, layout and at of it */
    struct luam_Sysprof_Options options;
    struct luam_Sysprof_Counters counters;
    struct stream *stream; /* NULL = only counters */
    struct cpu_timer timer;
    pthread_t thread;
    int signal;
    struct sigaction former; /* the former action of the signal */
    uint32_t frames;         /* of the C stack that is being written */
} s;

static pthread_mutex_t s_mutex = PTHREAD_MUTEX_INITIALIZER;
struct profiler_failure sysprof_failure = {"", 0};

static int fail(int status, int number, const char *why)
{
    return profiler_fail(&sysprof_failure, status, number, why);
}

/* -- the C stack -- */

static uint32_t most_frames(void)
{
    return s.options.mode == LUAM_SYSPROF_LEAF ? 1 : MOST_FRAMES;
}

/* For a backtracer of the program. */
static void *write_frame(int number, void *address)
{
    (void)number;
    if (!address || s.frames++ == most_frames())
        return NULL;
    stream_number(s.stream, (uint64_t)(uintptr_t)address);
    return s.frames < most_frames() ? address : NULL;
}

static bool is_run_time_code(uint64_t ip)
{
    struct eh_sections sections;
    return code_object_sections(ip, &sections) == CODE_NO_OBJECT;
}

/* Machine code of traces has no unwinding information: go on at the virtual machine's frame. */
static uint32_t unwind(const struct native_registers *from, uint64_t *ips)
{
    LASTING_TABLE(uint64_t, sps, MOST_FRAMES);
    uint32_t n = native_unwind(from, ips, sps, most_frames());
    const uint64_t cframe = machine_cframe(&s.machine), end = cframe + s.machine.layout->cframe_size;
    if (!n || n == most_frames() || !cframe || cframe < sps[n - 1] || !is_run_time_code(ips[n - 1]))
        return n;
    const struct native_registers outer = {program_number(end - 8, 8) - 1, end, program_number(end - 16, 8)};
    return n + native_unwind(&outer, ips + n, sps + n, most_frames() - n);
}

static void write_host_stack(const ucontext_t *at)
{
    LASTING_TABLE(uint64_t, ips, MOST_FRAMES);
    const greg_t *r = at->uc_mcontext.gregs;
    s.frames = 0;
    if (s_backtracer)
        s_backtracer(write_frame);
    else {
        const struct native_registers from = {(uint64_t)r[REG_RIP], (uint64_t)r[REG_RSP],
                                              (uint64_t)r[REG_RBP]};
        const uint32_t n = unwind(&from, ips);
        for (uint32_t i = 0; i < n; i++)
            stream_number(s.stream, ips[i]);
    }
    stream_number(s.stream, 0);
}

/* -- the Lua stack -- */

static void write_lua_frame(const struct machine_frame *f)
{
    struct stream *out = s.stream;
    if (f->kind == FRAME_LUA) {
        stream_byte(out, 1);
        stream_number(out, f->proto);
        stream_number(out, machine_first_line(&s.machine, f->proto));
    } else {
        stream_byte(out, f->kind == FRAME_C ? 2 : 3);
        stream_number(out, f->kind == FRAME_C ? f->code : f->ffid);
    }
}

static void begin_walk(struct lt_frames *w, const ucontext_t *at)
{
    const greg_t *r = at->uc_mcontext.gregs;
    const struct lt_registers live = {(uint64_t)r[REG_RDX], (uint64_t)r[REG_RBX]};
    const bool is_interpreter = (uint64_t)r[REG_RSP] == machine_cframe(&s.machine);
    machine_walk(w, &s.machine, is_interpreter && live.base ? &live : NULL);
}

/* The symbols come first, because they cannot be within a sample. */
static void write_lua_symbols(const ucontext_t *at)
{
    struct lt_frames w;
    struct machine_frame f;
    begin_walk(&w, at);
    for (uint32_t i = 0; i < most_frames() && machine_next(&w, &f); i++)
        if (f.kind == FRAME_LUA)
            stream_proto(s.stream, &s.machine, f.proto);
}

static void write_lua_stack(const ucontext_t *at)
{
    struct lt_frames w;
    struct machine_frame f;
    begin_walk(&w, at);
    for (uint32_t i = 0; i < most_frames() && machine_next(&w, &f); i++)
        write_lua_frame(&f);
    stream_byte(s.stream, LUA_FRAME_END);
}

/* -- samples -- */

/* The state with sysprof's number. Stock LuaJIT has one state for the interpreter, which runs Lua functions and library
 * functions: the innermost frame tells them apart. */
static enum machine_state state_of(const ucontext_t *at, uint32_t doing)
{
    static const enum machine_state states[MT_VMS] = {
        [MT_VM_INTERP] = MACHINE_INTERP, [MT_VM_C] = MACHINE_CFUNC,       [MT_VM_GC] = MACHINE_GC,
        [MT_VM_EXIT] = MACHINE_EXIT,     [MT_VM_RECORD] = MACHINE_RECORD, [MT_VM_OPT] = MACHINE_OPT,
        [MT_VM_ASM] = MACHINE_ASM,       [MT_VM_TRACE] = MACHINE_TRACE,   [MT_VM_FAST] = MACHINE_FFUNC};
    struct lt_frames w;
    struct machine_frame f;
    if (doing != MT_VM_INTERP)
        return doing < MT_VMS ? states[doing] : MACHINE_INTERP;
    begin_walk(&w, at);
    if (!machine_next(&w, &f))
        return MACHINE_INTERP;
    return f.kind == FRAME_LUA ? MACHINE_LFUNC : f.kind == FRAME_FAST ? MACHINE_FFUNC : MACHINE_CFUNC;
}

static void count(enum machine_state state)
{
    uint64_t *const at[MACHINE_STATES] = {
        [MACHINE_INTERP] = &s.counters.vmst_interp, [MACHINE_LFUNC] = &s.counters.vmst_lfunc,
        [MACHINE_FFUNC] = &s.counters.vmst_ffunc,   [MACHINE_CFUNC] = &s.counters.vmst_cfunc,
        [MACHINE_GC] = &s.counters.vmst_gc,         [MACHINE_EXIT] = &s.counters.vmst_exit,
        [MACHINE_RECORD] = &s.counters.vmst_record, [MACHINE_OPT] = &s.counters.vmst_opt,
        [MACHINE_ASM] = &s.counters.vmst_asm,       [MACHINE_TRACE] = &s.counters.vmst_trace};
    ++*at[state];
    s.counters.samples++;
}

static void write_trace(uint32_t trace)
{
    uint64_t proto = 0;
    uint32_t line = 0;
    machine_trace(&s.machine, trace, &proto, &line);
    stream_trace(s.stream, &s.machine, trace);
    stream_byte(s.stream, MACHINE_TRACE);
    stream_number(s.stream, trace);
    stream_number(s.stream, proto);
    stream_number(s.stream, line);
}

static void write_sample(enum machine_state state, uint32_t trace, const ucontext_t *at)
{
    if (state == MACHINE_TRACE) {
        write_trace(trace);
        return;
    }
    stream_new_functions(s.stream);
    const bool has_lua = state == MACHINE_LFUNC || state == MACHINE_FFUNC || state == MACHINE_CFUNC;
    if (has_lua)
        write_lua_symbols(at);
    stream_byte(s.stream, (uint8_t)state);
    if (has_lua)
        write_lua_stack(at);
    write_host_stack(at);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    const int error = errno;
    uint32_t trace;
    (void)signal;
    if (!s.is_running || info->si_code != SI_TIMER || !pthread_equal(pthread_self(), s.thread))
        return;
    program_forget();
    const enum machine_state state = state_of(context, machine_doing(&s.machine, &trace));
    count(state);
    if (s.stream && !s.stream->failed && !s.stream->ended)
        write_sample(state, trace, context);
    errno = error;
}

/* -- start and stop -- */

static size_t write_stream(const void **data, size_t size, void *ctx)
{
    return s_writer(data, size, ctx);
}

static struct stream *make_stream(void)
{
    struct stream *out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (out == MAP_FAILED)
        return NULL;
    stream_begin(out, s.options.buf, s.options.len, write_stream, s.options.ctx);
    out->symbol[SYMBOL_LUA] = 10;
    out->symbol[SYMBOL_C] = 11;
    out->symbol[SYMBOL_TRACE] = 12;
    stream_table(out, true);
    stream_head(out, "ljp", VERSION);
    stream_flush(out);
    return out;
}

static void free_stream(void)
{
    if (s.stream)
        munmap(s.stream, sizeof *s.stream);
    s.stream = NULL;
}

/* Returns NULL, or what is wrong with the options. */
static const char *check(const struct luam_Sysprof_Options *opt)
{
    if (!opt || opt->mode > LUAM_SYSPROF_CALLGRAPH)
        return "profiler misuse: unknown mode";
    if (opt->interval < 1 || opt->interval > LONGEST_INTERVAL)
        return "profiler misuse: the interval is not a number of milliseconds, 1 or more";
    if (opt->mode == LUAM_SYSPROF_DEFAULT)
        return NULL;
    if (!s_writer || !s_on_stop || !s_has_backtracer)
        return "profiler misuse: a callback is missing";
    return opt->buf && opt->len >= LEAST_BUFFER ? NULL : "profiler misuse: the buffer is too small";
}

static bool start_timer(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigset_t set;
    s.signal = s.options.signo ? s.options.signo : SIGPROF;
    sigfillset(&action.sa_mask);
    sigemptyset(&set);
    sigaddset(&set, s.signal);
    if (sigaction(s.signal, &action, &s.former) != 0)
        return false;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    s.thread = pthread_self();
    if (cpu_timer_start(&s.timer, cpu_timer_thread(), s.signal, s.options.interval * MILLISECOND))
        return true;
    sigaction(s.signal, &s.former, NULL);
    return false;
}

/* A signal that was sent before the timer was deleted must not meet the former action, which may end the program. */
static void stop_timer(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    cpu_timer_stop(&s.timer);
    sigaction(s.signal, &ignore, NULL);
    sigaction(s.signal, &s.former, NULL);
}

static int start(lua_State *L, const struct luam_Sysprof_Options *opt)
{
    if (s.is_running)
        return fail(PROFILE_ERRRUN, EINVAL, "profiler is running already");
    const char *why = check(opt);
    if (why)
        return fail(PROFILE_ERRUSE, EINVAL, why);
    if ((why = machine_find(&s.machine, L)))
        return fail(PROFILE_ERRUSE, ENOTSUP, why);
    s.options = *opt;
    memset(&s.counters, 0, sizeof s.counters);
    code_objects_closed();
    s.stream = opt->mode == LUAM_SYSPROF_DEFAULT ? NULL : make_stream();
    if (!s.stream && opt->mode != LUAM_SYSPROF_DEFAULT)
        return fail(PROFILE_ERRMEM, ENOMEM, "not enough memory");
    if (s.stream && s.stream->failed) {
        const int error = s.stream->error;
        free_stream();
        return fail(PROFILE_ERRIO, error, "cannot write the profile");
    }
    s.is_running = true;
    if (start_timer())
        return PROFILE_SUCCESS;
    const int error = errno;
    s.is_running = false;
    free_stream();
    return fail(PROFILE_ERRIO, error, "cannot start the timer");
}

static int stop(void)
{
    bool failed = false, stopped = true;
    int error = 0;
    stop_timer();
    s.is_running = false;
    if (s.stream) {
        stream_end(s.stream);
        failed = s.stream->failed;
        error = s.stream->error;
        errno = 0;
        stopped = s_on_stop(s.options.ctx, s.stream->buffer) == 0;
        free_stream();
    }
    if (!stopped)
        return fail(PROFILE_ERRIO, failed ? error : errno, "cannot end the profile");
    return failed ? fail(PROFILE_ERRIO, error, "cannot write the profile") : PROFILE_SUCCESS;
}

static bool is_profiled(const lua_State *L)
{
    return s.is_running && machine_is_of(&s.machine, L);
}

/* -- the functions of ljtrace-native.h -- */

#define PUBLIC __attribute__((visibility("default")))

/* Returns false while the profiler runs. */
static bool may_set(void)
{
    return !s.is_running;
}

PUBLIC int luaM_sysprof_set_writer(luam_Sysprof_writer writer)
{
    if (!may_set() || !writer)
        return fail(PROFILE_ERRUSE, EINVAL, "profiler misuse");
    s_writer = writer;
    return PROFILE_SUCCESS;
}

PUBLIC int luaM_sysprof_set_on_stop(luam_Sysprof_on_stop on_stop)
{
    if (!may_set() || !on_stop)
        return fail(PROFILE_ERRUSE, EINVAL, "profiler misuse");
    s_on_stop = on_stop;
    return PROFILE_SUCCESS;
}

PUBLIC int luaM_sysprof_set_backtracer(luam_Sysprof_backtracer backtracer)
{
    if (!may_set())
        return fail(PROFILE_ERRUSE, EINVAL, "profiler misuse");
    s_backtracer = backtracer;
    s_has_backtracer = true;
    return PROFILE_SUCCESS;
}

PUBLIC int luaM_sysprof_start(lua_State *L, const struct luam_Sysprof_Options *opt)
{
    const bool is_watched = closing_watch(L); /* not while locked: it may finalize objects */
    pthread_mutex_lock(&s_mutex);
    const int status = is_watched ? start(L, opt) : fail(PROFILE_ERRMEM, ENOMEM, "not enough memory");
    pthread_mutex_unlock(&s_mutex);
    return status;
}

PUBLIC int luaM_sysprof_stop(lua_State *L)
{
    pthread_mutex_lock(&s_mutex);
    int status;
    if (!s.is_running)
        status = fail(PROFILE_ERRRUN, EINVAL, "profiler is not running");
    else if (!is_profiled(L))
        status = fail(PROFILE_ERRUSE, EINVAL, "profiler runs in another state");
    else
        status = stop();
    pthread_mutex_unlock(&s_mutex);
    return status;
}

PUBLIC int luaM_sysprof_report(struct luam_Sysprof_Counters *counters)
{
    if (!counters)
        return fail(PROFILE_ERRUSE, EINVAL, "profiler misuse");
    *counters = s.counters;
    return PROFILE_SUCCESS;
}

void sysprof_closing(lua_State *L)
{
    pthread_mutex_lock(&s_mutex);
    if (is_profiled(L))
        stop();
    pthread_mutex_unlock(&s_mutex);
}
