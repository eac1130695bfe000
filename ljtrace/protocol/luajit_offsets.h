/* luajit_offsets.h - sizes and offsets of LuaJIT that depend only on the width of references.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A build with 8-byte references (GC64) has the first number, one with 4-byte references the second. Offsets that
 * depend on the build's options as well are measured by ljtrace/calibrate/ (lua_layout.h). All are in bytes, from the
 * beginning of the structure.
 */
#ifndef LJTRACE_PROTOCOL_LUAJIT_OFFSETS_H
#define LJTRACE_PROTOCOL_LUAJIT_OFFSETS_H

#include <stdint.h>

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
