/* lua_layout.h - where a build of LuaJIT keeps what the tool reads; found by the preload, used by the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The smaller structures (thread, function, prototype, table, trace) have been the same in all builds of
 * LuaJIT 2.1 but for the width of references; ljtrace/tool/luajit/core/states.h knows them. What differs from build to build is here.
 * Offsets in bytes; `g` is the global state, which every thread refers to.
 */
#ifndef LJTRACE_PROTOCOL_LUA_LAYOUT_H
#define LJTRACE_PROTOCOL_LUA_LAYOUT_H

#include <stdint.h>

/* LuaJITs that may be loaded at one time. */
enum { LUA_MAX_IMAGES = 16, LUA_LAYOUT_VM_STATES = 12, LUA_LAYOUT_TEXT = 240 };

/* Whose allocator function is it? LuaJIT's own returns within its own object, unless it is made of realloc
 * and ends by a jump to it. */
enum lua_allocator { LUA_ALLOCATOR_PROGRAMS, LUA_ALLOCATOR_OWN, LUA_ALLOCATOR_OWN_ENDING_ANYWHERE };

struct lua_layout {
    uint32_t known;                    /* 1: found and checked. 0: not to be used, text says why */
    uint32_t heap_unknown;             /* 1: nor is its own allocator */
    uint32_t gc64;                     /* references have 8 bytes (1) or 4 (0) */
    uint32_t thread_size;              /* g - main thread */
    uint32_t vmstate, cur_l, jit_base; /* in g */
    uint32_t traces; /* in g: pointer to the table of traces; their number is 12 bytes behind. 0 = no JIT */
    uint32_t
        recorder; /* in g: the compiler's structure, which begins with the trace being made; 0 = not known */
    uint32_t cframe_pc, cframe_prev, cframe_size; /* in the frame of the interpreter on the C stack */
    uint32_t string_header;
    uint32_t parser_line; /* in the lexer's state; the chunk's name is 8 bytes behind; 0 = not known */
    uint8_t vm[LUA_LAYOUT_VM_STATES]; /* enum mt_vm of ~vmstate */
    uint8_t op_gget, op_mov, op_call, op_tgets, op_uget, op_tnew, op_tdup, op_cat, op_fnew,
        op_tsets; /* bytecode numbers */
    char text[LUA_LAYOUT_TEXT];
};

#endif
