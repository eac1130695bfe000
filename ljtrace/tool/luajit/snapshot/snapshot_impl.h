/* snapshot_impl.h - how the files of this folder work together. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * snapshot.c         takes the snapshot and checks its sums
 * roots.c    where the global state keeps its lists, found and checked at the first snapshot
 * object.c  sizes, colours, values
 * references.c   what an object refers to
 * names.c   names of functions, userdata and keys
 * ctype.c   names and sizes of cdata
 */
#ifndef LJTRACE_TOOL_LUAJIT_SNAPSHOT_SNAPSHOT_IMPL_H
#define LJTRACE_TOOL_LUAJIT_SNAPSHOT_SNAPSHOT_IMPL_H

#include "ljtrace/tool/luajit/core/states.h"

enum { UNIVERSE_TEXT = 400, NODE_BYTES = 24, FFID_LUA = 0, FFID_C = 1 };

/* What a string.buffer keeps in its userdata; references of the width that the build has. */
struct universe_buffer {
    Addr data; /* its block; 0 = it has none of its own */
    ULong bytes;
    Addr borrowed;            /* the string whose text it shows instead; 0 = none */
    Addr strings, metatables; /* dictionaries; 0 = none */
};

/* A state while its snapshot is taken. */
struct universe {
    struct lt_vm *vm;
    const struct lt_offsets *at;
    Addr gc;      /* of the collector's counters: total first */
    Addr strings; /* the string table */
    UInt string_mask, string_count;
    Addr ctypes; /* the FFI's state; 0 = there is none */
    Addr roots;  /* names of metamethods, then metatables of types: references */
    UInt root_count;
    Addr registry;  /* 0 = not found */
    Bool finalised; /* the walk is among those that wait for their finalisers */
    ULong limit;    /* a list can not have more objects */
    ULong seen;     /* in this walk */
};

typedef void object_visitor(struct universe *u, Addr object);

/* Fill u; NULL, or why not. */
const HChar *universe_find(struct universe *u, struct lt_vm *vm);
/* Visit every object once; False if a list is broken. */
Bool universe_walk(struct universe *u, object_visitor *visit);
static inline Addr universe_main(const struct universe *u)
{
    return u->vm->g - u->vm->layout->thread_size;
}

/* The object that the value at `slot` refers to, with its type; 0 if it is a number or the like. */
Addr object_value(const struct universe *u, Addr slot, UInt *gct);
/* Bytes of an object with its parts; 0 if they make no sense. Of the main thread only its stack. */
ULong object_bytes(const struct universe *u, Addr object);
/* Begin of the blocks that the object has besides its own; 0 = none. */
void object_parts(const struct universe *u, Addr object, Addr part[2]);
Bool object_is_dead(const struct universe *u, Addr object);
ULong string_bytes(const struct lt_vm *vm, Addr string);
/* Length of the text of a string. */
UInt string_length(const struct lt_vm *vm, Addr string);

/* Read the string.buffer that a userdata is; False if it is none. */
Bool universe_buffer(const struct universe *u, Addr udata, struct universe_buffer *b);

/* Tell what an object refers to. */
void universe_links(struct universe *u, Addr object);
/* Where the collector begins, besides the main thread; u->registry is one of them. */
void universe_roots(struct universe *u, Addr *root, UInt *count, UInt most);

/* The key of the object's name, told before it is returned; 0 = none. */
Addr universe_name(const struct universe *u, Addr object);
/* The same for a string, and for a text in the program's memory. */
Addr universe_string(const struct universe *u, Addr string);
Addr universe_text(Addr text);
/* The same for a table's key that is an integer or a boolean, as [1000000]; 0 = it is something else. */
Addr universe_plain_key(const struct universe *u, Addr slot);
/* A snapshot begins: nothing is told yet. */
void universe_begin_names(const struct universe *u, Addr registry);
/* Value of a field of a table with a string as key; 0. */
Addr table_field(const struct universe *u, Addr table, const HChar *name);
/* Weak keys 1, weak values 2, of tables with this metatable. */
UInt table_mode(const struct universe *u, Addr metatable);

/* Bytes of a cdata; 0 = not known. Its block begins at *block. */
ULong cdata_bytes(const struct universe *u, Addr cdata, Addr *block);
void ctype_name(const struct universe *u, UInt id, HChar *to);

#endif
