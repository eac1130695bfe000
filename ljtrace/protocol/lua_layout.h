/* lua_layout.h - the layout of a build of LuaJIT: where it keeps what the tool reads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ljtrace/calibrate/ finds the layout, for the preload, the native recorder and the profilers. The smaller structures
 * (thread, function, prototype, table, trace) are the same in all builds of LuaJIT 2.1 except for the width of
 * references; LUAJIT_OFFSETS has theirs. What differs between builds is in struct lua_layout. Offsets are in bytes, from the
 * beginning of the structure; `g` is the global state, to which every thread refers.
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
    /* The way to compute the size of a string object, one bit (ljtrace/luajit/core/accounting.h). 0 = not known. */
    uint32_t string_form;
    /* The meaning (enum mt_vm) of each VM state below 0, indexed by ~state. */
    uint8_t vm[LUA_LAYOUT_VM_STATES];
    /* The numbers of bytecodes. */
    uint8_t op_gget, op_mov, op_call, op_tgets, op_uget, op_tnew, op_tdup, op_cat, op_fnew, op_tsets;
    /* Why the layout is not known, for the user. */
    char text[LUA_LAYOUT_TEXT];
};

/* -- what depends only on the width of references -- */

/* A build with 8-byte references (GC64) has the first number, one with 4-byte references the second. */
/* clang-format off */
#define LUAJIT_OFFSETS(X)                                                                                    \
    /* A reference, and the head of every object: what follows the link to the next. */                      \
    X(ref, 8, 4)                                                                                             \
    X(gct, 9, 5)                                                                                             \
    X(ffid, 10, 6)                                                                                           \
    /* A thread, lua_State. */                                                                               \
    X(thread_base, 32, 16)                                                                                   \
    X(thread_stack, 56, 36)                                                                                  \
    X(thread_last, 48, 32)                                                                                   \
    X(thread_size, 88, 56)                                                                                   \
    X(thread_cframe, 80, 48)                                                                                 \
    X(thread_open, 64, 40)                                                                                   \
    X(thread_env, 72, 44)                                                                                    \
    X(thread_global, 16, 8)                                                                                  \
    /* A prototype, GCproto. */                                                                              \
    X(proto_bytes, 56, 32)                                                                                   \
    X(proto_count, 12, 8)                                                                                    \
    X(proto_code, 104, 64)                                                                                   \
    X(proto_k, 32, 16)                                                                                       \
    X(proto_constants, 48, 24)                                                                               \
    X(proto_trace, 62, 38)                                                                                   \
    X(proto_chunk, 64, 40)                                                                                   \
    X(proto_first, 72, 44)                                                                                   \
    X(proto_line_count, 76, 48)                                                                              \
    X(proto_lines, 80, 52)                                                                                   \
    X(proto_upvalues, 88, 56)                                                                                \
    X(proto_vars, 96, 60)                                                                                    \
    /* A function: its code, its number of upvalues, its C function, its bytes without upvalues. */          \
    X(func_pc, 32, 16)                                                                                       \
    X(func_upvalues, 11, 7)                                                                                  \
    X(func_c, 40, 24)                                                                                        \
    X(lua_func_bytes, 40, 20)                                                                                \
    X(c_func_bytes, 48, 32)                                                                                  \
    /* A table, GCtab. */                                                                                    \
    X(tab_array, 16, 8)                                                                                      \
    X(tab_node, 40, 20)                                                                                      \
    X(tab_bytes, 64, 32)                                                                                     \
    X(tab_asize, 48, 24)                                                                                     \
    X(tab_colo, 11, 7)                                                                                       \
    X(tab_meta, 32, 16)                                                                                      \
    /* Userdata and upvalues; env: of functions, too. */                                                     \
    X(udata_len, 24, 12)                                                                                     \
    X(udata_bytes, 48, 24)                                                                                   \
    X(upval_bytes, 48, 24)                                                                                   \
    X(upval_value, 32, 16)                                                                                   \
    X(env, 16, 8)                                                                                            \
    /* A C value, and an element of the table of C types. */                                                 \
    X(cdata_bytes, 16, 8)                                                                                    \
    X(ctype_bytes, 24, 16)                                                                                   \
    X(ctype_name, 16, 12)                                                                                    \
    /* A trace, GCtrace; the structure of the compiler, jit_State, begins with one. */                       \
    X(trace_nsnap, 10, 6)                                                                                    \
    X(trace_nins, 12, 8)                                                                                     \
    X(trace_nk, 40, 24)                                                                                      \
    X(trace_ir, 32, 16)                                                                                      \
    X(trace_snap, 48, 32)                                                                                    \
    X(trace_snapmap, 56, 40)                                                                                 \
    X(trace_start, 64, 48)                                                                                   \
    X(trace_startpc, 72, 52)                                                                                 \
    X(trace_code_bytes, 84, 60)                                                                              \
    /* Eight bytes in all builds: machine code may be anywhere. */                                            \
    X(trace_code, 88, 64)                                                                                    \
    X(trace_number, 104, 80)                                                                                 \
    /* The instruction that is being recorded, in the structure of the compiler. */                          \
    X(recorder_pc, 136, 112)
/* clang-format on */

struct luajit_offsets {
#define LUAJIT_MEMBER(name, wide, narrow) uint32_t name;
    LUAJIT_OFFSETS(LUAJIT_MEMBER)
#undef LUAJIT_MEMBER
};

/* The offsets of a build whose references have 8 bytes, or 4. */
static inline const struct luajit_offsets *luajit_offsets(int gc64)
{
#define LUAJIT_WIDE(name, wide, narrow) .name = wide,
#define LUAJIT_NARROW(name, wide, narrow) .name = narrow,
    static const struct luajit_offsets wide = {LUAJIT_OFFSETS(LUAJIT_WIDE)},
                                       narrow = {LUAJIT_OFFSETS(LUAJIT_NARROW)};
#undef LUAJIT_WIDE
#undef LUAJIT_NARROW
    return gc64 ? &wide : &narrow;
}

#endif
