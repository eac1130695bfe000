/* options.h - what the host of the reader of LuaJIT sets: its options, and the thread that hides.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_BASE_OPTIONS_H
#define LJTRACE_LUAJIT_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Set before the first Lua state is known; constant during a recording. */
struct luajit_options {
    uint32_t stack_depth;  /* --stack-depth: frames kept for each heap event */
    bool heaps;            /* --heap: record LuaJIT's heaps */
    bool states;           /* --lua: find where LuaJIT keeps its state */
    bool check_stacks;     /* --check-stacks: repeat the walks of cached stacks and compare */
    bool snapshot_at_exit; /* --universe=at-exit: a snapshot of all Lua objects when a state ends */
    bool snapshot_growing; /* --universe=growing: each time the heap of a state has grown */
};

extern struct luajit_options luajit_options;

/* -- the thread that hides -- */

/* Begin or end hiding: what this thread allocates meanwhile is the recorder's own (a scratch state), and is
 * not recorded. */
void lt_hide(uint32_t tid, bool hide);
bool lt_is_hiding(uint32_t tid);

#endif
