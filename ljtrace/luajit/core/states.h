/* states.h - the Lua states of the program, and those structures of LuaJIT that are the same in all builds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_CORE_STATES_H
#define LJTRACE_LUAJIT_CORE_STATES_H

#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/protocol/lua_layout.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of the type byte of an object. */
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
/* Kinds of userdata that LuaJIT's libraries create. */
enum { UDATA_FILE = 1, UDATA_LIBRARY = 2, UDATA_BUFFER = 3 };

/* The kind of caller: the low two bits of the link of a frame on the Lua stack. */
enum lt_link { LINK_LUA, LINK_C, LINK_CONTINUED, LINK_VARG };

/* A place in a trace's machine code: the trace, and the snapshot whose range contains the place. */
struct lt_spot {
    uint64_t trace; /* 0 = none */
    uint32_t number;
    uint64_t ip;
    uint64_t code, snap; /* start of the machine code; the snapshot */
};

/* A Lua state. */
struct lt_vm {
    struct lt_vm *next;
    uint64_t g, ud;
    uint32_t image;
    const struct lua_layout *layout;
    const struct luajit_offsets *at;
    bool is_older;   /* the state had begun before the recording */
    uint32_t stores; /* stores to its VM state that the Valgrind tool has seen */
    bool unreported; /* one of them is not in the ring yet */
    bool assembling; /* the VM is in the state of assembling */
    struct lt_recording *recording;
    struct lt_assembly *assembly;
    struct lt_pending *pending;    /* a block whose type is not known yet */
    struct lt_spot allocating;     /* the trace that allocated last */
    uint64_t last_object;          /* the table or thread created last */
    uint64_t live_bytes;           /* bytes that were requested (accounting.c) */
    struct lt_internals *internal; /* blocks that are not objects */
    uint64_t internal_bytes;
    bool ended;         /* lua_close was called */
    uint32_t closed_by; /* the thread that closes it; 0 = none. Other threads must not read its memory. */
    /* A snapshot's sums were right, so gc and string_table are where it assumed them to be. */
    bool places_sure;
    /* Requested while the state was busy with an object (ljtrace/luajit/snapshot/snapshot.h). */
    bool snapshot_due;
    /* With --universe=growing: at how many bytes of the heap the next snapshot is taken, 0 = that depends on the last one,
     * which is not complete; and the bytes that the heap has besides live_bytes, those from before the recording. */
    uint64_t grown_at, older_bytes;
    uint64_t last_total;       /* bytes of the heap at the last one; 0 = not known */
    uint32_t growths;          /* snapshots of this kind */
    bool counted;              /* the bytes are known since its first block */
    uint32_t string_forms;     /* the ways to compute a string's size that fit all strings so far */
    uint64_t gc, string_table; /* where the last snapshot found them */
};

/* What the parts above this one do when states come and go; NULL = nothing. */
struct lt_vm_hooks {
    void (*made)(struct lt_vm *vm);   /* a structure for a state was made */
    void (*begins)(struct lt_vm *vm); /* the state is known, or has another heap */
    void (*ends)(struct lt_vm *vm);   /* its structure will be freed */
    void (*ended)(void);              /* it was freed */
};
/* They are called in the order in which they were added. */
void lt_vm_hook(const struct lt_vm_hooks *hooks);

/* The layout of an image was found inside the program, or was not. A failure is reported to the user, and so is a Lua that is
 * not LuaJIT, which is also a fact of the trace. file: from which the image was loaded. */
void lt_vm_layout(const struct lua_layout *layout, uint32_t image, const char *file);
/* The image is unloaded: its states no longer run, whether they were closed or not. */
void lt_vm_image_gone(uint32_t image);
/* A state exists. ud: the pointer that is passed to its allocator. */
void lt_vm_announce(uint64_t g, uint64_t ud, uint32_t image);
/* The minimum size of a state's first block. */
enum { LT_LEAST_GLOBAL = 2048 };
/* A block was allocated in a heap of this image, but for no known state. If it is the first block of a state,
 * add the state and return it, else return NULL. */
struct lt_vm *lt_vm_first_block(uint64_t block, size_t size, uint64_t ud, uint32_t image);
/* The state of a heap. NULL if none is known, or if several have this heap and it is not clear which is
 * meant. */
struct lt_vm *lt_vm_of(uint64_t ud);
/* A thread closes a state. */
void lt_vm_closing(uint64_t g, uint32_t thread);
/* States were closed. g: the state; 0 = all states of the heap. */
void lt_vm_closed(uint64_t ud, uint64_t g);
/* How many states have this heap. */
uint32_t lt_vm_count(uint64_t ud);
/* The state with this global state; NULL if none is known. */
struct lt_vm *lt_vm_with_global(uint64_t g);
/* The first in the list of all states. */
struct lt_vm *lt_vm_first(void);
/* The number of the state's heap in the ring. Not `ud`: several states may have the same one, at the same time or one
 * after the other. Until a state is known, its blocks are in the heap `ud`, which announcing the state renames. */
static inline uint64_t lt_vm_heap(const struct lt_vm *vm)
{
    return vm->g;
}

static inline uint64_t lt_vm_ref(const struct lt_vm *vm, uint64_t a)
{
    return program_number(a, vm->at->ref);
}
static inline uint32_t lt_vm_u32(uint64_t a)
{
    return (uint32_t)program_number(a, 4);
}
static inline uint32_t lt_vm_gct(const struct lt_vm *vm, uint64_t object)
{
    return (uint32_t)program_number(object + vm->at->gct, 1);
}

#endif
