/* ljtrace.h - requests from a program to the recorder.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Include this in a program that wants to be seen more clearly under `valgrind --tool=ljtrace`. Outside
 * Valgrind each request costs a few instructions and does nothing. Needs Valgrind's valgrind.h.
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
    LJTRACE_REQUEST_LUA_STATE        /* of the tool's own preload */
};

/* Write a named mark into the trace: a point of the program that analyses can refer to. */
#define LJTRACE_MARK(name) VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_MARK, (name), 0, 0, 0, 0)

/* Record accesses, or only heap events, from here on. */
#define LJTRACE_START() VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_SWITCH, 1, 0, 0, 0, 0)
#define LJTRACE_STOP() VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_SWITCH, 0, 0, 0, 0, 0)

#endif
