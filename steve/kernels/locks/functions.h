/* functions.h - which functions make an access, and which are on a call stack: as numbers.
 *
 * A C function is identified by its name. Code without names counts as one function for each object, and code
 * without an object is FUNCTIONS_UNKNOWN. A Lua function is identified by its file and the line where it begins,
 * because prototypes and the frames of stacks and of traces all have these. Functions that begin in the same line of
 * a file are one.
 *
 * An access to a block of a Lua heap is made by the Lua function of its instruction
 * (steve/kernels/lines/lua_lines.h), in place of LuaJIT's code without names. While the virtual machine is in the
 * collector's state, it is made by FUNCTIONS_COLLECTOR. A C function with a name also counts. An access to another
 * block is made only by the code of its site.
 *
 * After a Lua function has returned to C, or has made a tail call to a library function, what its thread does still
 * belongs to its last instruction. So the function that a thread *runs* is that of the last Lua instruction, whether
 * or not it is on the stack.
 *
 * Memory: O(live blocks + frames + instructions of Lua + functions).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LOCKS_FUNCTIONS_H
#define STEVE_KERNELS_LOCKS_FUNCTIONS_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/handle_map.h"
#include "steve/kernels/lines/lua_lines.h"

enum { FUNCTIONS_UNKNOWN, FUNCTIONS_COLLECTOR, FUNCTIONS_FIRST };

/* The functions that make an access: n of them, 1 or 2. */
struct functions_makers {
    uint32_t number[2];
    unsigned n;
};

struct functions {
    const struct mt_reader *reader;
    struct luacode code;
    struct handle_map known; /* by what a function is known by: number, less FUNCTIONS_FIRST */
    uint32_t *frames;     /* number by frame, plus 1; 0 = not determined yet */
    uint32_t *places;     /* number by place of steve/kernels/lines/lua_lines.h */
    size_t frames_room, places_room;
    uint32_t n_protos; /* whose places are there */
};

/* All that return false are out of memory. Free it then, too. */
bool functions_init(struct functions *f, const struct mt_reader *reader);
void functions_free(struct functions *f);
/* Take over what the reader has defined; before each batch. */
bool functions_learn(struct functions *f);
/* Numbers given out so far: all are less. */
size_t functions_count(const struct functions *f);

/* The function of a frame. */
uint32_t functions_of_frame(struct functions *f, uint32_t frame);
/* Those that make an access, which `code` has just followed. */
struct functions_makers functions_of_access(struct functions *f, const struct mt_event *e);
/* The function of Lua that a thread runs; FUNCTIONS_UNKNOWN: none. */
uint32_t functions_running(struct functions *f, uint16_t thread);
/* Is the thread's virtual machine in the collector's state? */
bool functions_collects(const struct functions *f, uint16_t thread);

#endif
