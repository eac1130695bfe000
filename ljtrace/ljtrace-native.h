/* ljtrace-native.h - profile memory and CPU time of a LuaJIT state from a C program.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions have the names and meanings of those in Tarantool's LuaJIT, and write streams that its parsers read. They
 * work with any LuaJIT 2.1 on x86-64 whose functions lua_* the dynamic linker finds. Link with -lljtrace-lua. The manual
 * page ljtrace-lua(3) describes them; Lua scripts have the same by `require "ljtrace.misc"`.
 *
 * One state at a time can be profiled by each of the two profilers, and only by the thread that runs it.
 *
 * Redistribution and use in source and binary forms, with or without modification, are permitted provided
 * that the following conditions are met: 1. Redistributions of source code must retain this list of
 * conditions and the following disclaimer. 2. Redistributions in binary form must reproduce it in the
 * documentation or other materials provided with the distribution. 3. The names of the authors may not be
 * used to endorse or promote products derived from this file without specific prior written permission.
 *
 * THIS SOFTWARE IS PROVIDED BY THE AUTHORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT
 * LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED.
 * IN NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR
 * CONSEQUENTIAL DAMAGES ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE
 * POSSIBILITY OF SUCH DAMAGE.
 */
#ifndef LJTRACE_NATIVE_H
#define LJTRACE_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lua_State;

/* -- memprof: every allocation, resize and free of a state ------------------------------------------ */

/* Results. */
#define LUAM_PROFILE_SUCCESS 0
#define LUAM_PROFILE_ERR 1 /* misuse: it runs already, does not run, or the options are wrong */
#define LUAM_PROFILE_ERRMEM 2
#define LUAM_PROFILE_ERRIO 3 /* writer or on_stop has failed */

struct luam_Prof_options {
    /* It is passed to both functions. */
    void *arg;
    /* Write this part of the stream. Returns the number of bytes written; 0 = it has failed. It must not use the state. */
    size_t (*writer)(const void *data, size_t len, void *arg);
    /* The profiler has stopped: by luaM_memprof_stop, after dursec seconds, or because the state is closed. Returns 0 on
     * success. It must not use the state. */
    int (*on_stop)(void *arg);
    /* Stop after so many seconds, at the next allocation; 0 = never. */
    uint64_t dursec;
    /* The signal that is used for that; 0 = SIGPROF. Its action is replaced until the profiler stops. */
    int signo;
};

/* Start with the state of L. If that fails, on_stop is not called. */
int luaM_memprof_start(struct lua_State *L, const struct luam_Prof_options *opt);
/* Stop, if it was started with the state of L. */
int luaM_memprof_stop(const struct lua_State *L);
bool luaM_memprof_isrunning(void);

/* -- sysprof: the stacks of C and Lua, sampled by CPU time ------------------------------------------- */

/* Results. */
#define PROFILE_SUCCESS 0
#define PROFILE_ERRUSE 1 /* the options are wrong, or a callback is missing */
#define PROFILE_ERRRUN 2 /* it runs already, or does not run */
#define PROFILE_ERRMEM 3
#define PROFILE_ERRIO 4 /* writer, on_stop or a call of the system has failed: see errno */

/* Modes: count the states of the virtual machine; write the innermost frames of each sample, too; whole stacks. */
#define LUAM_SYSPROF_DEFAULT 0
#define LUAM_SYSPROF_LEAF 1
#define LUAM_SYSPROF_CALLGRAPH 2

/* Write this part of the stream. Returns the number of bytes written; 0 = it has failed. It may set *data to another buffer
 * of the same size, or to NULL: then nothing more is written. It is called by a signal handler. */
typedef size_t (*luam_Sysprof_writer)(const void **data, size_t len, void *ctx);
/* The profiler has stopped. buf: the last buffer. Returns 0 on success. */
typedef int (*luam_Sysprof_on_stop)(void *ctx, uint8_t *buf);
/* Pass the return address of each frame of the C stack to frame_writer, the innermost first, until it returns NULL. It is
 * called by a signal handler. */
typedef void (*luam_Sysprof_backtracer)(void *(*frame_writer)(int frame_no, void *addr));

struct luam_Sysprof_Options {
    uint8_t mode;
    uint64_t interval; /* milliseconds of CPU time of the calling thread, 1 or more */
    uint8_t *buf;      /* to gather the stream in; not needed in the first mode */
    size_t len;
    void *ctx; /* it is passed to writer and on_stop */
    int signo; /* the signal to use; 0 = SIGPROF */
};

/* Samples by state of the virtual machine. */
struct luam_Sysprof_Counters {
    uint64_t vmst_interp, vmst_lfunc, vmst_ffunc, vmst_cfunc, vmst_gc, vmst_exit, vmst_record, vmst_opt,
        vmst_asm, vmst_trace;
    uint64_t samples; /* all of them */
};

/* While the profiler does not run; else PROFILE_ERRUSE. A backtracer of NULL is the built-in one. */
int luaM_sysprof_set_writer(luam_Sysprof_writer writer);
int luaM_sysprof_set_on_stop(luam_Sysprof_on_stop on_stop);
int luaM_sysprof_set_backtracer(luam_Sysprof_backtracer backtracer);

/* Start with the state of L, in the calling thread. */
int luaM_sysprof_start(struct lua_State *L, const struct luam_Sysprof_Options *opt);
int luaM_sysprof_stop(struct lua_State *L);
/* The counters so far, or of the last profile. */
int luaM_sysprof_report(struct luam_Sysprof_Counters *counters);

#ifdef __cplusplus
}
#endif

#endif
