/* lt_universe_ctype.c - sizes and names of C types, for cdata. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The FFI keeps its types in one table. An entry has a word that says what it is (the kind in its highest 4
 * bits, flags, the number of the type it refers to in its lowest 16), its size, and the name of structures,
 * enumerations and typedefs. Names here are near C's: `struct node`, `int [16]`, `const char *`. What has no
 * name is called by the typedef that refers to it, else by its number.
 */
#include "lt_universe_parts.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"

enum {
    KIND_NUMBER,
    KIND_STRUCT,
    KIND_POINTER,
    KIND_ARRAY,
    KIND_VOID,
    KIND_ENUM,
    KIND_FUNCTION,
    KIND_TYPEDEF,
    KIND_ATTRIBUTE
};
enum {
    BOOL = 0x08000000,
    FLOAT = 0x04000000,
    CONST = 0x02000000,
    UNSIGNED = 0x00800000,
    UNION = 0x00800000,
    REFERENCE = 0x00800000,
    VARIABLE = 0x00100000
};
enum { VARIABLE_CDATA = 0x80, MOST_STEPS = 20, POINTER_BYTES = 8 };

struct ctype {
    UInt info, size;
    Addr name;
};

static Bool get(const struct universe *u, UInt id, struct ctype *to)
{
    UInt bytes = u->vm->layout->gc64 ? 24 : 16;
    Addr at = lt_peek_number(u->ctypes, 8) + (Addr)id * bytes;
    if (!u->ctypes || id >= lt_vm_u32(u->ctypes + 8) || !lt_readable(at, bytes))
        return False;
    to->info = lt_vm_u32(at);
    to->size = lt_vm_u32(at + 4);
    to->name = lt_vm_ref(u->vm, at + (bytes == 24 ? 16 : 12));
    return True;
}

static UInt kind_of(const struct ctype *t)
{
    return t->info >> 28;
}

/* Attributes and typedefs stand before the type itself. */
static Bool get_raw(const struct universe *u, UInt id, struct ctype *to)
{
    Bool found = get(u, id, to);
    for (UInt i = 0; found && i < MOST_STEPS; i++) {
        if (kind_of(to) != KIND_ATTRIBUTE && kind_of(to) != KIND_TYPEDEF)
            return True;
        found = get(u, to->info & 0xffff, to);
    }
    return False;
}

/* What has no fixed size or a large alignment is told by what stands before it: how far the block begins
 * before it (2 bytes), how much the block has besides the content (2), and the content's bytes (4). */
static ULong variable_bytes(Addr cdata, Addr *block)
{
    *block = cdata - lt_peek_number(cdata - 8, 2);
    return lt_peek_number(cdata - 6, 2) + lt_vm_u32(cdata - 4);
}

ULong cdata_bytes(const struct universe *u, Addr cdata, Addr *block)
{
    struct ctype t;
    UInt head = u->vm->layout->gc64 ? 16 : 8;
    *block = cdata;
    if (lt_peek_number(cdata + u->at->gct - 1, 1) & VARIABLE_CDATA)
        return variable_bytes(cdata, block);
    if (!get_raw(u, (UInt)lt_peek_number(cdata + u->at->ffid, 2), &t))
        return 0;
    return head + (kind_of(&t) <= KIND_ENUM ? t.size : POINTER_BYTES);
}

static void append(HChar *to, const HChar *text)
{
    UInt n = VG_(strlen)(to), m = VG_(strlen)(text);
    if (n + m < UNIVERSE_TEXT)
        VG_(memcpy)(to + n, text, m + 1);
}

static void append_string(const struct universe *u, HChar *to, Addr string)
{
    UInt n = VG_(strlen)(to), length = string_length(u->vm, string);
    if (n + length + 1 < UNIVERSE_TEXT && lt_peek(string + u->vm->layout->string_header, to + n, length))
        to[n + length] = 0;
}

static void append_number(HChar *to, const HChar *form, UInt number)
{
    HChar text[40];
    VG_(snprintf)(text, sizeof text, form, number);
    append(to, text);
}

static void append_arithmetic(HChar *to, const struct ctype *t)
{
    static const HChar *const names[] = {"int8_t", "int16_t", "int32_t", "int64_t"};
    UInt log = t->size == 8 ? 3 : t->size == 4 ? 2 : t->size == 2 ? 1 : 0;
    if (t->info & BOOL)
        append(to, "bool");
    else if (t->info & FLOAT)
        append(to, t->size == 4 ? "float" : t->size == 8 ? "double" : "long double");
    else {
        if (t->info & UNSIGNED)
            append(to, "u");
        append(to, names[log]);
    }
}

/* The typedef that refers to a type without a name of its own. */
static Addr typedef_of(const struct universe *u, UInt id)
{
    struct ctype t;
    for (UInt i = 1; get(u, i, &t); i++)
        if (kind_of(&t) == KIND_TYPEDEF && (t.info & 0xffff) == id)
            return t.name;
    return 0;
}

static void append_tagged(const struct universe *u, HChar *to, UInt id, const struct ctype *t)
{
    Addr other = t->name ? 0 : typedef_of(u, id);
    if (!other)
        append(to, kind_of(t) == KIND_ENUM ? "enum " : t->info & UNION ? "union " : "struct ");
    if (t->name || other)
        append_string(u, to, t->name ? t->name : other);
    else
        append_number(to, "%u", id);
}

/* The innermost type first, then what is made of it, as `int * [4]`. */
void ctype_name(const struct universe *u, UInt id, HChar *to)
{
    struct ctype chain[MOST_STEPS];
    UInt n = 0;
    to[0] = 0;
    while (n < MOST_STEPS && get(u, id, &chain[n])) {
        UInt kind = kind_of(&chain[n++]);
        if (kind != KIND_POINTER && kind != KIND_ARRAY && kind != KIND_FUNCTION && kind < KIND_TYPEDEF)
            break;
        id = chain[n - 1].info & 0xffff;
    }
    for (UInt i = n; i-- > 0;) {
        const struct ctype *t = &chain[i];
        UInt kind = kind_of(t);
        if (t->info & CONST && kind < KIND_POINTER)
            append(to, "const ");
        if (kind == KIND_NUMBER)
            append_arithmetic(to, t);
        else if (kind == KIND_STRUCT || kind == KIND_ENUM)
            append_tagged(u, to, id, t);
        else if (kind == KIND_VOID)
            append(to, "void");
        else if (kind == KIND_POINTER)
            append(to, t->info & REFERENCE ? " &" : " *");
        else if (kind == KIND_FUNCTION)
            append(to, "()");
        else if (kind == KIND_ARRAY && (t->info & VARIABLE || t->size == 0xffffffff))
            append(to, " [?]");
        else if (kind == KIND_ARRAY)
            append_number(to, " [%u bytes]", t->size);
    }
}
