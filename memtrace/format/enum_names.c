/* enum_names.c - the names of the public enums, for the dump and for steve.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/memtrace.h"

/* The body of a function that returns the name of value i of an enum. It does not compile unless there is a name for
 * each of the `count` values. */
#define NAME_OF(count, i, ...)                                                                               \
    static const char *const names[] = {__VA_ARGS__};                                                        \
    _Static_assert(sizeof names / sizeof *names == (count), "each value of the enum needs a name");          \
    return (size_t)(i) < (count) ? names[i] : "?"

const char *mt_kind_name(enum mt_kind k)
{
    static const char *const names[] = {
#define MT_KIND(NAME, name, shown) #name,
#include "memtrace/kinds.def"
    };
    return (size_t)k < MT_KINDS ? names[k] : "?";
}

bool mt_kind_has_stack(enum mt_kind k)
{
    static const bool has[] = {
#define MT_KIND(NAME, name, shown) 0 shown,
#define MT_STACK +1
#include "memtrace/kinds.def"
    };
    return (size_t)k < MT_KINDS && has[k];
}

char mt_kind_letter(enum mt_kind k)
{
    static const char letters[] = "NFRLSM";
    return (size_t)k < sizeof letters - 1 ? letters[k] : '?';
}

const char *mt_how_name(enum mt_how h)
{
    NAME_OF(MT_HOWS, h, "malloc", "calloc", "realloc", "memalign", "new", "new[]", "lua", "custom");
}

const char *mt_badfree_name(enum mt_badfree b)
{
    NAME_OF(MT_BADFREES, b, "invalid", "inside", "double", "heap", "mismatch");
}

const char *mt_heap_kind_name(enum mt_heap_kind k)
{
    NAME_OF(MT_HEAP_KINDS, k, "malloc", "lua", "mmap", "custom");
}

const char *mt_type_name(enum mt_type t)
{
    NAME_OF(MT_TYPES, t, "unknown", "str", "upval", "thread", "proto", "func", "trace", "cdata", "tab",
            "udata", "array", "hash", "stack", "strtab", "buffer", "jit", "global", "other");
}

const char *mt_reach_name(enum mt_reach r)
{
    NAME_OF(MT_REACHES, r, "reachable", "possible", "indirect", "lost");
}

const char *mt_vm_name(enum mt_vm v)
{
    NAME_OF(MT_VMS, v, "INTERP", "C", "GC", "EXIT", "RECORD", "OPT", "ASM", "TRACE", "FAST");
}

const char *mt_link_kind_name(enum mt_link_kind k)
{
    NAME_OF(MT_LINK_KINDS, k, "other", "metatable", "env", "proto", "upvalue", "constant", "array", "key",
            "value", "stack");
}

const char *mt_frame_kind_name(enum mt_frame_kind k)
{
    NAME_OF(MT_FRAME_KINDS, k, "host", "lua", "fast", "c", "lua-inlined", "vm", "inlined", "cut");
}

const char *mt_ending_name(enum mt_ending e)
{
    NAME_OF(MT_ENDINGS, e, "unknown", "exit", "killed", "exec", "limit", "stopped", "detached");
}
