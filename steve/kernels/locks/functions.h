/* functions.h - which functions make an access, and which are on a call stack: as numbers.
 *
 * A function of C is known by its name; code without one counts as one function for each object, code of
 * which not even that is known is FUNCTIONS_UNKNOWN. A function of Lua is known by its file and the line
 * where it begins, for that is what its prototype, the frames of stacks and those of traces all tell; so
 * functions that begin in one line of a file are one.
 *
 * An access to a block of a Lua heap is made by the function of Lua whose instruction it belongs to
 * (steve/kernels/lines/lua_lines.h), which stands for LuaJIT's code without names; while the virtual machine is in the collector's
 * state, by FUNCTIONS_COLLECTOR. Code of C that has a name counts besides. An access to another block is made
 * by the code of its site alone.
 *
 * What a thread does after a function of Lua has returned to C, or has left its place on the stack to a
 * function of a library by a tail call, still belongs to that function's last instruction. So the function
 * that a thread *runs* is that of the last instruction of Lua, whether or not it is on the stack.
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
    struct livemap known; /* by what a function is known by: number, less FUNCTIONS_FIRST */
    uint32_t *frames;     /* number by frame, plus 1; 0 = not asked for yet */
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
