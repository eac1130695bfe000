/* snapshot_impl.h - what the files of this folder share.
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
#include <stdbool.h>
#include <stdint.h>

enum { SNAPSHOT_TEXT = 400, NODE_BYTES = 24, FFID_LUA = 0, FFID_C = 1 };

/* The content of a string.buffer's userdata. The width of references depends on the build. */
struct snapshot_buffer {
    uint64_t data; /* its block; 0 = it has none of its own */
    uint64_t bytes;
    uint64_t borrowed;            /* the string whose text it shows instead; 0 = none */
    uint64_t strings, metatables; /* dictionaries; 0 = none */
};

/* A state while its snapshot is being taken. */
struct snapshot {
    struct lt_vm *vm;
    const struct luajit_offsets *at;
    uint64_t gc;      /* address of the collector's counters; the first is the total */
    uint64_t strings; /* the string table */
    uint32_t string_mask, string_count;
    uint64_t ctypes; /* the FFI's state; 0 = none */
    uint64_t roots;  /* references: names of metamethods, then metatables of types */
    uint32_t root_count;
    uint64_t registry; /* 0 = not found */
    bool finalised;    /* the walk is in the list of objects that wait for their finalisers */
    uint64_t limit;    /* the most objects that a list can have */
    uint64_t seen;     /* objects seen in this walk */
};

/* A function that is called for each object. */
typedef void object_visitor(struct snapshot *u, uint64_t object);

/* Fill u for a state. Returns NULL, or why that is not possible. */
const char *snapshot_find(struct snapshot *u, struct lt_vm *vm);
/* Visit each object once. Returns false if a list is broken. */
bool snapshot_walk(struct snapshot *u, object_visitor *visit);
/* The main thread: it precedes the global state. */
static inline uint64_t snapshot_main(const struct snapshot *u)
{
    return u->vm->g - u->vm->layout->thread_size;
}

/* The object to which the value in `slot` refers, and its type; 0 if the value is not an object. */
uint64_t object_value(const struct snapshot *u, uint64_t slot, uint32_t *gct);
/* The size of an object with its parts; 0 if it is impossible. For the main thread only that of its stack. */
uint64_t object_bytes(const struct snapshot *u, uint64_t object);
/* The blocks that the object has besides its own; 0 = none. */
void object_parts(const struct snapshot *u, uint64_t object, uint64_t part[2]);
/* Is the object garbage? */
bool object_is_dead(const struct snapshot *u, uint64_t object);
/* The length of a string's text. */
uint32_t string_length(const struct lt_vm *vm, uint64_t string);

/* Read the string.buffer in a userdata. Returns false if there is none. */
bool snapshot_buffer(const struct snapshot *u, uint64_t udata, struct snapshot_buffer *b);

/* Write the references of an object into the ring. */
void snapshot_links(struct snapshot *u, uint64_t object);
/* The objects from which the collector marks, besides the main thread; they include u->registry. */
void snapshot_roots(struct snapshot *u, uint64_t *root, uint32_t *count, uint32_t most);

/* The key of the object's name, which is written into the ring before; 0 = it has none. */
uint64_t snapshot_name(const struct snapshot *u, uint64_t object);
/* The same for the text of a string object. */
uint64_t snapshot_string(const struct snapshot *u, uint64_t string);
/* The same for a text in the program's memory. */
uint64_t snapshot_text(uint64_t text);
/* The same for the local variable in a slot of a Lua stack; pc: the instruction that its function executes, and slot counts
 * from the function's base. 0 = it has no name. */
uint64_t snapshot_local(const struct snapshot *u, uint64_t proto, uint64_t pc, uint32_t slot);
/* The same for a table key that is an integer or a boolean, for example [1000000]; 0 = it is something
 * else. */
uint64_t snapshot_plain_key(const struct snapshot *u, uint64_t slot);
/* Begin a snapshot: no name was written yet. */
void snapshot_begin_names(const struct snapshot *u, uint64_t registry);
/* The slot of the value that a table has for a string key; 0 = none. */
uint64_t table_field(const struct snapshot *u, uint64_t table, const char *name);
/* The weakness of tables with this metatable: 1 = keys, 2 = values. */
uint32_t table_mode(const struct snapshot *u, uint64_t metatable);

/* The size of a cdata; 0 = not known. *block: where its block begins. */
uint64_t cdata_bytes(const struct snapshot *u, uint64_t cdata, uint64_t *block);
/* Write the name of a C type. */
void ctype_name(const struct snapshot *u, uint32_t id, char *to);

#endif
