/* ljtrace.h - requests from a program to the recorder.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Include this in a program to mark points of its run, take snapshots and declare its own allocators when it
 * runs under `valgrind --tool=ljtrace`. `ljtrace run` and `ljtrace attach` record marks and snapshots. Otherwise each request
 * costs a few instructions and does nothing. Needs Valgrind's valgrind.h.
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
#ifndef LJTRACE_H
#define LJTRACE_H

#include <valgrind/valgrind.h>

enum ljtrace_request {
    LJTRACE_REQUEST_MARK = VG_USERREQ_TOOL_BASE('L', 'J'),
    LJTRACE_REQUEST_SWITCH,
    LJTRACE_REQUEST_WATCH_ALLOCATOR, /* of the tool's own preload */
    LJTRACE_REQUEST_HEAP_CLOSED,     /* of the tool's own preload */
    LJTRACE_REQUEST_HIDE,            /* of the tool's own preload */
    LJTRACE_REQUEST_PEEK,            /* of the tool's own preload */
    LJTRACE_REQUEST_LUA_LAYOUT,      /* of the tool's own preload */
    LJTRACE_REQUEST_LUA_STATE,       /* of the tool's own preload */
    LJTRACE_REQUEST_SNAPSHOT,
    LJTRACE_REQUEST_POOL_CREATE,
    LJTRACE_REQUEST_ALLOCATOR,
    LJTRACE_REQUEST_HEAP_MOVED,    /* of the tool's own preload */
    LJTRACE_REQUEST_HEAP_CLOSING,  /* of the tool's own preload */
    LJTRACE_REQUEST_LUA_IMAGE,     /* of the tool's own preload */
    LJTRACE_REQUEST_LUA_FUNCTIONS, /* of the tool's own preload */
    LJTRACE_REQUEST_NEW,           /* of the tool's own preload */
    LJTRACE_REQUEST_MADE_BY,       /* of the tool's own preload */
    LJTRACE_REQUEST_RESIZE,        /* of the tool's own preload */
    LJTRACE_REQUEST_FREE,          /* of the tool's own preload */
    LJTRACE_REQUEST_OWNS,          /* of the tool's own preload */
    LJTRACE_REQUEST_BYTES          /* of the tool's own preload */
};

/* The same for `ljtrace run`, whose library defines these functions. They are weak, so programs need not be linked with
 * anything; and they are found by the global offset table, so the linker does not decide that they are missing. */
#if defined __x86_64__ && defined __linux__ && defined __GNUC__
#define LJTRACE_NATIVE(function, name)                                                                       \
    do {                                                                                                     \
        void (*ljtrace_function)(const char *);                                                              \
        __asm__(".weak " #function "\n\tmovq " #function "@GOTPCREL(%%rip), %0" : "=r"(ljtrace_function));   \
        if (ljtrace_function)                                                                                \
            ljtrace_function(name);                                                                          \
    } while (0)
#else
#define LJTRACE_NATIVE(function, name)
#endif

/* Write a named mark into the trace: a point of the run that analyses can refer to. */
#define LJTRACE_MARK(name)                                                                                   \
    do {                                                                                                     \
        const char *ljtrace_mark_name = (name);                                                              \
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_MARK, ljtrace_mark_name, 0, 0, 0, 0);                \
        LJTRACE_NATIVE(ljtrace_native_mark, ljtrace_mark_name);                                              \
    } while (0)

/* Switch the recording of accesses on or off. Heap events are always recorded. */
#define LJTRACE_START() VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_SWITCH, 1, 0, 0, 0, 0)
#define LJTRACE_STOP() VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_SWITCH, 0, 0, 0, 0, 0)

/* Take a snapshot of all objects of all LuaJIT states (see `steve universe`). It and all events so far are
 * written to the file, so that the file can be read up to here while the program continues. `ljtrace run` takes
 * one of the state that has called this C code, and it is in the file within about a second. */
#define LJTRACE_SNAPSHOT() LJTRACE_SNAPSHOT_NAMED("snapshot")
#define LJTRACE_SNAPSHOT_NAMED(name)                                                                         \
    do {                                                                                                     \
        const char *ljtrace_snapshot_name = (name);                                                          \
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_SNAPSHOT, ljtrace_snapshot_name, 0, 0, 0, 0);        \
        LJTRACE_NATIVE(ljtrace_native_snapshot, ljtrace_snapshot_name);                                      \
    } while (0)

/* A custom allocator. Each pool is a heap of its own, with a name, and is identified by any address that is
 * unique to it. Its memory may come from malloc, mmap or another pool. The block that it came from counts as
 * raw material from the first LJTRACE_POOL_ALLOC inside it until it is freed; then all blocks inside it end
 * as well. Valgrind's own requests (VALGRIND_MALLOCLIKE_BLOCK..., VALGRIND_CREATE_MEMPOOL...) do the same
 * without names. */
#define LJTRACE_POOL_CREATE(pool, name)                                                                      \
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_POOL_CREATE, (pool), (name), 0, 0, 0)
#define LJTRACE_POOL_ALLOC(pool, addr, size) VALGRIND_MEMPOOL_ALLOC(pool, addr, size)
#define LJTRACE_POOL_FREE(pool, addr) VALGRIND_MEMPOOL_FREE(pool, addr)
/* The block at `old` is now at `addr` (perhaps the same) and has `size` bytes. */
#define LJTRACE_POOL_RESIZE(pool, old, addr, size) VALGRIND_MEMPOOL_CHANGE(pool, old, addr, size)
/* The pool and all its blocks are gone. */
#define LJTRACE_POOL_DESTROY(pool) VALGRIND_DESTROY_MEMPOOL(pool)

/* Put these around an allocator's own work (on its headers and free lists): accesses of this thread in
 * between are not the program's and are not recorded. */
#define LJTRACE_ALLOCATOR_BEGIN() VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_ALLOCATOR, 1, 0, 0, 0, 0)
#define LJTRACE_ALLOCATOR_END() VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_ALLOCATOR, 0, 0, 0, 0, 0)

#endif
