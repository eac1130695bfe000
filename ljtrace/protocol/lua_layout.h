/* lua_layout.h - the layout of a build of LuaJIT: where it keeps what the tool reads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ljtrace/calibrate/ finds the layout, for the preload, the native recorder and the profilers. The smaller structures
 * (thread, function, prototype, table, trace) are the same in all builds of LuaJIT 2.1 except for the width of
 * references; ljtrace/protocol/luajit_offsets.h has their offsets. What differs between builds is here. Offsets are in
 * bytes; `g` is the global state, to which every thread refers.
 */
#ifndef LJTRACE_PROTOCOL_LUA_LAYOUT_H
#define LJTRACE_PROTOCOL_LUA_LAYOUT_H

#include <stdint.h>

/* LUA_MAX_IMAGES: how many LuaJITs may be loaded at one time. */
enum { LUA_MAX_IMAGES = 16, LUA_LAYOUT_VM_STATES = 12, LUA_LAYOUT_TEXT = 240 };

/* Whose allocator function is it? LuaJIT's own returns inside LuaJIT's object, unless it is implemented by
 * realloc, and ends with a jump to it. */
enum lua_allocator { LUA_ALLOCATOR_PROGRAMS, LUA_ALLOCATOR_OWN, LUA_ALLOCATOR_OWN_ENDING_ANYWHERE };

struct lua_layout {
    /* 1: found and checked. 0: the rest must not be used; text says why. */
    uint32_t known;
    /* 1: LuaJIT's own allocator was not found either. */
    uint32_t heap_unknown;
    /* The width of references: 1 = 8 bytes, 0 = 4 bytes. */
    uint32_t gc64;
    /* The distance from the main thread to g. */
    uint32_t thread_size;
    /* In g: the VM state, the current thread, the base of the running trace. */
    uint32_t vmstate, cur_l, jit_base;
    /* In g: the pointer to the table of traces; their number is 12 bytes after it. 0 = no JIT compiler. */
    uint32_t traces;
    /* In g: the compiler's structure, which begins with the trace being recorded. 0 = not known. */
    uint32_t recorder;
    /* In the interpreter's frame on the C stack: program counter, link to the previous frame; the frame's
     * size. */
    uint32_t cframe_pc, cframe_prev, cframe_size;
    /* The distance from a string object to its text. */
    uint32_t string_header;
    /* In the lexer's state: the current line; the chunk's name is 8 bytes after it. 0 = not known. */
    uint32_t parser_line;
    /* The meaning (enum mt_vm) of each VM state below 0, indexed by ~state. */
    uint8_t vm[LUA_LAYOUT_VM_STATES];
    /* The numbers of bytecodes. */
    uint8_t op_gget, op_mov, op_call, op_tgets, op_uget, op_tnew, op_tdup, op_cat, op_fnew, op_tsets;
    /* Why the layout is not known, for the user. */
    char text[LUA_LAYOUT_TEXT];
};

#endif
