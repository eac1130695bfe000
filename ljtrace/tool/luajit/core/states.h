/* states.h - the Lua states of the program, and the structures of LuaJIT that are the same in all builds.
 * (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_LUAJIT_CORE_STATES_H
#define LJTRACE_TOOL_LUAJIT_CORE_STATES_H

#include "ljtrace/protocol/lua_layout.h"
#include "ljtrace/tool/base/guest_memory.h"

/* Values of an object's type byte. */
enum lt_gct {
    GCT_STR = 4,
    GCT_UPVAL,
    GCT_THREAD,
    GCT_PROTO,
    GCT_FUNC,
    GCT_TRACE,
    GCT_CDATA,
    GCT_TAB,
    GCT_UDATA
};
/* LuaJIT's own kinds of userdata. */
enum { UDATA_FILE = 1, UDATA_LIBRARY = 2, UDATA_BUFFER = 3 };

/* Low two bits of a frame's link on the Lua stack: who called. */
enum lt_link { LINK_LUA, LINK_C, LINK_CONTINUED, LINK_VARG };

/* Offsets that depend on the width of references alone. */
struct lt_offsets {
    UInt ref, gct, ffid; /* width; in every object */
    UInt thread_base, thread_stack, thread_size, thread_cframe, thread_open, thread_env;
    UInt proto_code, proto_count, proto_k, proto_bytes, proto_chunk, proto_first, proto_lines,
        proto_line_count, proto_upvalues, proto_vars, proto_constants, proto_trace;
    UInt func_pc, func_upvalues, func_c; /* code, number of upvalues, C function */
    UInt lua_func_bytes, c_func_bytes;   /* without upvalues */
    UInt tab_array, tab_node, tab_bytes, tab_asize, tab_colo, tab_meta;
    UInt udata_len, udata_bytes, upval_bytes, upval_value, env; /* env: of functions and userdata */
    UInt trace_nsnap, trace_nins, trace_ir, trace_snap, trace_snapmap, trace_startpc, trace_code_bytes,
        trace_code, trace_number, trace_nk, trace_start;
    UInt recorder_pc; /* in the compiler's structure */
};

/* A trace and its snapshot in whose range a code address lies. */
struct lt_spot {
    Addr trace; /* 0 = none */
    UInt number;
    Addr ip;
    Addr code, snap; /* start of its machine code, the snapshot */
};

/* A Lua state. */
struct lt_vm {
    struct lt_vm *next;
    Addr g, ud;
    UInt image;
    const struct lua_layout *layout;
    const struct lt_offsets *at;
    UInt stores;     /* to its machine's state, as far as the tool has counted them */
    Bool untold;     /* one of them is not yet in the trace */
    Bool assembling; /* the machine is in that state */
    struct lt_recording *recording;
    struct lt_assembly *assembly;
    struct lt_pending *pending;    /* block whose type is not known yet */
    struct lt_spot asking;         /* the trace that asked for a block last */
    Addr last_object;              /* table or thread made last */
    ULong live_bytes;              /* as the allocator was asked for (accounting.c): */
    struct _VgHashTable *internal; /* blocks that are no objects */
    ULong internal_bytes;
    Bool ended;            /* it is being closed */
    Bool places_sure;      /* a snapshot's sums were right: gc and string_table are where they seem to be */
    Bool snapshot_due;     /* asked for while the state was at work on an object (ljtrace/tool/luajit/snapshot/snapshot.h) */
    Bool counted;          /* from its first block on */
    UInt string_forms;     /* ways to compute a string's size that fit all strings so far */
    Addr gc, string_table; /* where the last snapshot found them */
};

/* The preload found the layout of an image, or did not: then that is said once. */
void lt_vm_layout(const struct lua_layout *layout, UInt image);
/* The image is unloaded: its states run no more, closed or not. */
void lt_vm_image_gone(UInt image);
/* A state is there whose allocator's state pointer is ud. */
void lt_vm_announce(Addr g, Addr ud, UInt image);
/* Least bytes of a state's first block. */
enum { LT_LEAST_GLOBAL = 2048 };
/* A block was made in a heap of that image, on behalf of no state that is known: if it is a state's first,
 * the state; else NULL. */
struct lt_vm *lt_vm_first_block(Addr block, SizeT size, Addr ud, UInt image);
/* The state of a heap; NULL if none is known or several share the pointer and it is not clear which. */
struct lt_vm *lt_vm_of(Addr ud);
/* g: the state; 0 = all states of the heap. */
void lt_vm_closed(Addr ud, Addr g);
/* How many states have this heap. */
UInt lt_vm_count(Addr ud);
/* All states; NULL ends. */
struct lt_vm *lt_vm_first(void);
/* What its machine does: enum mt_vm. */
UInt lt_machine_state(const struct lt_vm *vm);
/* Where the machine that runs has its frame on the C stack; 0 = none runs. */
Addr lt_vm_cframe(const struct lt_vm *vm);

static inline Addr lt_vm_ref(const struct lt_vm *vm, Addr a)
{
    return lt_peek_number(a, vm->at->ref);
}
static inline UInt lt_vm_u32(Addr a)
{
    return (UInt)lt_peek_number(a, 4);
}
static inline UInt lt_vm_gct(const struct lt_vm *vm, Addr object)
{
    return (UInt)lt_peek_number(object + vm->at->gct, 1);
}

#endif
