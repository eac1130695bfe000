/* snapshot_impl.h - what the files of this folder share. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * snapshot.c    takes a snapshot and checks its sums; begin here roots.c       finds the lists in the global
 * state, at the first snapshot object.c      sizes, colours and values of objects references.c  what an
 * object refers to names.c       names of functions, userdata and keys ctype.c       names and sizes of cdata
 */
#ifndef LJTRACE_LUAJIT_SNAPSHOT_SNAPSHOT_IMPL_H
#define LJTRACE_LUAJIT_SNAPSHOT_SNAPSHOT_IMPL_H

#include "ljtrace/luajit/core/states.h"

enum { SNAPSHOT_TEXT = 400, NODE_BYTES = 24, FFID_LUA = 0, FFID_C = 1 };

/* The content of a string.buffer's userdata. The width of references depends on the build. */
struct snapshot_buffer {
    Addr data; /* its block; 0 = it has none of its own */
    ULong bytes;
    Addr borrowed;            /* the string whose text it shows instead; 0 = none */
    Addr strings, metatables; /* dictionaries; 0 = none */
};

/* A state while its snapshot is being taken. */
struct snapshot {
    struct lt_vm *vm;
    const struct luajit_offsets *at;
    Addr gc;      /* address of the collector's counters; the first is the total */
    Addr strings; /* the string table */
    UInt string_mask, string_count;
    Addr ctypes; /* the FFI's state; 0 = none */
    Addr roots;  /* references: names of metamethods, then metatables of types */
    UInt root_count;
    Addr registry;  /* 0 = not found */
    Bool finalised; /* the walk is in the list of objects that wait for their finalisers */
    ULong limit;    /* the most objects that a list can have */
    ULong seen;     /* objects seen in this walk */
};

/* A function that is called for each object. */
typedef void object_visitor(struct snapshot *u, Addr object);

/* Fill u for a state. Returns NULL, or why that is not possible. */
const HChar *snapshot_find(struct snapshot *u, struct lt_vm *vm);
/* Visit each object once. Returns false if a list is broken. */
Bool snapshot_walk(struct snapshot *u, object_visitor *visit);
/* The main thread: it precedes the global state. */
static inline Addr snapshot_main(const struct snapshot *u)
{
    return u->vm->g - u->vm->layout->thread_size;
}

/* The object to which the value in `slot` refers, and its type; 0 if the value is not an object. */
Addr object_value(const struct snapshot *u, Addr slot, UInt *gct);
/* The size of an object with its parts; 0 if it is impossible. For the main thread only that of its stack. */
ULong object_bytes(const struct snapshot *u, Addr object);
/* The blocks that the object has besides its own; 0 = none. */
void object_parts(const struct snapshot *u, Addr object, Addr part[2]);
/* Is the object garbage? */
Bool object_is_dead(const struct snapshot *u, Addr object);
/* The length of a string's text. */
UInt string_length(const struct lt_vm *vm, Addr string);

/* Read the string.buffer in a userdata. Returns false if there is none. */
Bool snapshot_buffer(const struct snapshot *u, Addr udata, struct snapshot_buffer *b);

/* Write the references of an object into the ring. */
void snapshot_links(struct snapshot *u, Addr object);
/* The objects from which the collector marks, besides the main thread; they include u->registry. */
void snapshot_roots(struct snapshot *u, Addr *root, UInt *count, UInt most);

/* The key of the object's name, which is written into the ring before; 0 = it has none. */
Addr snapshot_name(const struct snapshot *u, Addr object);
/* The same for the text of a string object. */
Addr snapshot_string(const struct snapshot *u, Addr string);
/* The same for a text in the program's memory. */
Addr snapshot_text(Addr text);
/* The same for a table key that is an integer or a boolean, for example [1000000]; 0 = it is something
 * else. */
Addr snapshot_plain_key(const struct snapshot *u, Addr slot);
/* Begin a snapshot: no name was written yet. */
void snapshot_begin_names(const struct snapshot *u, Addr registry);
/* The slot of the value that a table has for a string key; 0 = none. */
Addr table_field(const struct snapshot *u, Addr table, const HChar *name);
/* The weakness of tables with this metatable: 1 = keys, 2 = values. */
UInt table_mode(const struct snapshot *u, Addr metatable);

/* The size of a cdata; 0 = not known. *block: where its block begins. */
ULong cdata_bytes(const struct snapshot *u, Addr cdata, Addr *block);
/* Write the name of a C type. */
void ctype_name(const struct snapshot *u, UInt id, HChar *to);

#endif
