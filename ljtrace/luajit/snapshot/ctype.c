/* ctype.c - sizes and names of C types, for cdata. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The FFI keeps its types in a table. An entry contains a word with the kind of the type (in the highest 4
 * bits), flags and the number of another type to which it refers (in the lowest 16 bits); then its size; and,
 * for structures, enumerations and typedefs, its name.
 *
 * Names are those that LuaJIT itself prints (tostring(ffi.typeof(x))): `struct node`, `int [16]`, `const char
 * *`, `int (*)()`. A type without a name gets that of a typedef that refers to it or, if there is none, its
 * number.
 */
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
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
    VECTOR = 0x08000000,
    FLOAT = 0x04000000,
    COMPLEX = 0x04000000,
    CONST = 0x02000000,
    VOLATILE = 0x01000000,
    QUALIFIERS = CONST | VOLATILE,
    UNSIGNED = 0x00800000,
    UNION = 0x00800000,
    REFERENCE = 0x00800000,
    VARIABLE = 0x00100000
};
enum { ATTRIBUTE_SHIFT = 16, ATTRIBUTE_MASK = 0xff, ATTRIBUTE_QUALIFIERS = 1, NO_SIZE = 0xffffffff };
enum { VARIABLE_CDATA = 0x80, MOST_STEPS = 20, POINTER_BYTES = 8 };

struct ctype {
    UInt info, size;
    Addr name;
};

static Bool get(const struct snapshot *u, UInt id, struct ctype *to)
{
    UInt bytes = u->at->ctype_bytes;
    Addr at = lt_guest_number(u->ctypes, 8) + (Addr)id * bytes;
    if (!u->ctypes || id >= lt_vm_u32(u->ctypes + 8) || !lt_guest_readable(at, bytes))
        return False;
    to->info = lt_vm_u32(at);
    to->size = lt_vm_u32(at + 4);
    to->name = lt_vm_ref(u->vm, at + u->at->ctype_name);
    return True;
}

static UInt kind_of(const struct ctype *t)
{
    return t->info >> 28;
}

/* Get the type itself, which attributes and typedefs may precede. */
static Bool get_raw(const struct snapshot *u, UInt id, struct ctype *to)
{
    Bool found = get(u, id, to);
    for (UInt i = 0; found && i < MOST_STEPS; i++) {
        if (kind_of(to) != KIND_ATTRIBUTE && kind_of(to) != KIND_TYPEDEF)
            return True;
        found = get(u, to->info & 0xffff, to);
    }
    return False;
}

/* A cdata that has a variable size or a large alignment is preceded by the distance to the start of its block
 * (2 bytes), the bytes that its block has besides the content (2 bytes), and the bytes of the content (4
 * bytes). */
static ULong variable_bytes(Addr cdata, Addr *block)
{
    *block = cdata - lt_guest_number(cdata - 8, 2);
    return lt_guest_number(cdata - 6, 2) + lt_vm_u32(cdata - 4);
}

ULong cdata_bytes(const struct snapshot *u, Addr cdata, Addr *block)
{
    struct ctype t;
    *block = cdata;
    if (lt_guest_number(cdata + u->at->gct - 1, 1) & VARIABLE_CDATA)
        return variable_bytes(cdata, block);
    if (!get_raw(u, (UInt)lt_guest_number(cdata + u->at->ffid, 2), &t))
        return 0;
    return u->at->cdata_bytes + (kind_of(&t) <= KIND_ENUM ? t.size : POINTER_BYTES);
}

/* A name that is being built: the text before and after the declared object. */
struct spelling {
    HChar before[SNAPSHOT_TEXT], after[SNAPSHOT_TEXT];
    UInt qualifiers; /* of the next type */
    Bool pointed_to; /* the last type was a pointer: an array or function needs parentheses */
};

static void append(HChar *to, const HChar *text)
{
    UInt n = VG_(strlen)(to), m = VG_(strlen)(text);
    if (n + m < SNAPSHOT_TEXT)
        VG_(memcpy)(to + n, text, m + 1);
}

static void prepend(HChar *to, const HChar *text)
{
    UInt n = VG_(strlen)(to), m = VG_(strlen)(text);
    if (n + m >= SNAPSHOT_TEXT)
        return;
    VG_(memmove)(to + m, to, n + 1);
    VG_(memcpy)(to, text, m);
}

/* Prepend a word, and a space if text follows. */
static void prepend_word(HChar *to, const HChar *word)
{
    if (to[0])
        prepend(to, " ");
    prepend(to, word);
}

static void prepend_qualifiers(HChar *to, UInt qualifiers)
{
    if (qualifiers & VOLATILE)
        prepend_word(to, "volatile");
    if (qualifiers & CONST)
        prepend_word(to, "const");
}

static const HChar *float_name(UInt size)
{
    return size == 4 ? "float" : size == 8 ? "double" : "long double";
}

static const HChar *number_name(const struct ctype *t)
{
    static const HChar *const names[2][4] = {{"char", "short", "int", "int64_t"},
                                             {"unsigned char", "unsigned short", "unsigned int", "uint64_t"}};
    UInt log = t->size == 8 ? 3 : t->size == 4 ? 2 : t->size == 2 ? 1 : 0;
    if (t->info & BOOL)
        return "bool";
    return t->info & FLOAT ? float_name(t->size) : names[(t->info & UNSIGNED) != 0][log];
}

/* The name of a typedef that refers to this type, which has no name of its own. */
static Addr typedef_of(const struct snapshot *u, UInt id)
{
    struct ctype t;
    for (UInt i = 1; get(u, i, &t); i++)
        if (kind_of(&t) == KIND_TYPEDEF && (t.info & 0xffff) == id)
            return t.name;
    return 0;
}

static void get_string(const struct snapshot *u, HChar *to, Addr string)
{
    UInt length = string_length(u->vm, string);
    if (length >= SNAPSHOT_TEXT || !lt_guest_read(string + u->vm->layout->string_header, to, length))
        length = 0;
    to[length] = 0;
}

static void tagged_name(const struct snapshot *u, HChar *to, UInt id, const struct ctype *t)
{
    Addr other = t->name ? 0 : typedef_of(u, id);
    if (t->name || other)
        get_string(u, to, t->name ? t->name : other);
    else
        VG_(snprintf)(to, SNAPSHOT_TEXT, "%u", id);
    if (!other)
        prepend_word(to, kind_of(t) == KIND_ENUM ? "enum" : t->info & UNION ? "union" : "struct");
}

static void spell_pointer(struct spelling *s, const struct ctype *t)
{
    if (t->info & REFERENCE)
        prepend(s->before, "&");
    else {
        prepend_qualifiers(s->before, s->qualifiers | (t->info & QUALIFIERS));
        prepend(s->before, "*");
    }
    s->qualifiers = 0;
    s->pointed_to = True;
}

/* Put a pointer to an array or function into parentheses. */
static void enclose(struct spelling *s)
{
    if (s->pointed_to) {
        prepend(s->before, "(");
        append(s->after, ")");
    }
    s->pointed_to = False;
}

/* The number of elements is known if their size is. */
static void spell_array(struct spelling *s, const struct snapshot *u, const struct ctype *t)
{
    HChar text[40];
    struct ctype element;
    enclose(s);
    if (t->size == NO_SIZE)
        VG_(strcpy)(text, t->info & VARIABLE ? "[?]" : "[]");
    else if (get_raw(u, t->info & 0xffff, &element) && element.size)
        VG_(snprintf)(text, sizeof text, "[%u]", t->size / element.size);
    else
        VG_(strcpy)(text, "[0]");
    append(s->after, text);
}

/* To the FFI, complex numbers and vectors are arrays. Returns true if the type is a complex number, which
 * ends the name. */
static Bool spell_complex(struct spelling *s, const struct ctype *t)
{
    if (!(t->info & COMPLEX))
        return False;
    prepend_word(s->before, t->size == 8 ? "complex float" : "complex");
    return True;
}

static void spell_vector(struct spelling *s, const struct ctype *t)
{
    HChar text[60];
    VG_(snprintf)(text, sizeof text, "__attribute__((vector_size(%u)))", t->size);
    prepend_word(s->before, text);
}

/* Spell one type, from the outside inwards. Returns true if another one follows. */
static Bool spell(struct spelling *s, const struct snapshot *u, UInt id, const struct ctype *t)
{
    HChar name[SNAPSHOT_TEXT];
    switch (kind_of(t)) {
    case KIND_POINTER:
        spell_pointer(s, t);
        return True;
    case KIND_ARRAY:
        if (spell_complex(s, t))
            break;
        if (t->info & VECTOR)
            spell_vector(s, t);
        else
            spell_array(s, u, t);
        return True;
    case KIND_FUNCTION:
        enclose(s);
        append(s->after, "()");
        return True;
    case KIND_ATTRIBUTE:
        if ((t->info >> ATTRIBUTE_SHIFT & ATTRIBUTE_MASK) == ATTRIBUTE_QUALIFIERS)
            s->qualifiers |= t->size;
        return True;
    case KIND_TYPEDEF:
        return True;
    case KIND_STRUCT:
    case KIND_ENUM:
        tagged_name(u, name, id, t);
        prepend_word(s->before, name);
        break;
    default:
        prepend_word(s->before, kind_of(t) == KIND_VOID ? "void" : number_name(t));
    }
    prepend_qualifiers(s->before, s->qualifiers | (t->info & QUALIFIERS));
    return False;
}

/* The types are spelled from the outermost inwards, with the declared object in the middle. */
void ctype_name(const struct snapshot *u, UInt id, HChar *to)
{
    struct spelling s = {.before = ""};
    struct ctype t;
    for (UInt i = 0; i < MOST_STEPS && get(u, id, &t) && spell(&s, u, id, &t); i++)
        id = t.info & 0xffff;
    VG_(strcpy)(to, s.before);
    if (s.after[0] && to[0] && !VG_(strchr)("*&(", to[VG_(strlen)(to) - 1]))
        append(to, " ");
    append(to, s.after);
}
