/* enum_names.c - the names of the public enums, for the dump and for steve.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/memtrace.h"

#define NAME_OF(names, i) ((size_t)(i) < sizeof(names) / sizeof *(names) ? (names)[i] : "?")

const char *mt_kind_name(enum mt_kind k)
{
    static const char *const names[MT_KINDS] = {"new",    "free",   "resize",  "load", "store",
                                                "modify", "mark",   "badfree", "lost", "type",
                                                "state",  "sample", "call",    "reach"};
    return NAME_OF(names, k);
}

char mt_kind_letter(enum mt_kind k)
{
    static const char letters[] = "NFRLSM";
    return (size_t)k < sizeof letters - 1 ? letters[k] : '?';
}

const char *mt_how_name(enum mt_how h)
{
    static const char *const names[MT_HOWS] = {"malloc", "calloc", "realloc", "memalign",
                                               "new",    "new[]",  "lua",     "custom"};
    return NAME_OF(names, h);
}

const char *mt_badfree_name(enum mt_badfree b)
{
    static const char *const names[MT_BADFREES] = {"invalid", "inside", "double", "heap", "mismatch"};
    return NAME_OF(names, b);
}

const char *mt_heap_kind_name(enum mt_heap_kind k)
{
    static const char *const names[MT_HEAP_KINDS] = {"malloc", "lua", "mmap", "custom"};
    return NAME_OF(names, k);
}

const char *mt_type_name(enum mt_type t)
{
    static const char *const names[MT_TYPES] = {"unknown", "str",    "upval",  "thread", "proto",  "func",
                                                "trace",   "cdata",  "tab",    "udata",  "array",  "hash",
                                                "stack",   "strtab", "buffer", "jit",    "global", "other"};
    return NAME_OF(names, t);
}

const char *mt_reach_name(enum mt_reach r)
{
    static const char *const names[MT_REACHES] = {"reachable", "possible", "indirect", "lost"};
    return NAME_OF(names, r);
}

const char *mt_vm_name(enum mt_vm v)
{
    static const char *const names[MT_VMS] = {"INTERP", "C",   "GC",    "EXIT", "RECORD",
                                              "OPT",    "ASM", "TRACE", "FAST"};
    return NAME_OF(names, v);
}

const char *mt_link_kind_name(enum mt_link_kind k)
{
    static const char *const names[MT_LINK_KINDS] = {"other",    "metatable", "env", "proto", "upvalue",
                                                     "constant", "array",     "key", "value", "stack"};
    return NAME_OF(names, k);
}

const char *mt_frame_kind_name(enum mt_frame_kind k)
{
    static const char *const names[MT_FRAME_KINDS] = {"host", "lua", "fast", "c", "lua-inlined", "vm"};
    return NAME_OF(names, k);
}

const char *mt_ending_name(enum mt_ending e)
{
    static const char *const names[MT_ENDINGS] = {"unknown", "exit", "killed", "exec", "limit", "stopped"};
    return NAME_OF(names, e);
}
