/* ctype.c - sizes and names of C types, for cdata.
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
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include <string.h>

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
    uint32_t info, size;
    uint64_t name;
};

static bool ctype_get(const struct snapshot *u, uint32_t id, struct ctype *to)
{
    uint32_t bytes = u->at->ctype_bytes;
    uint64_t at = program_number(u->ctypes, 8) + (uint64_t)id * bytes;
    if (!u->ctypes || id >= lt_vm_u32(u->ctypes + 8) || !program_readable(at, bytes))
        return false;
    to->info = lt_vm_u32(at);
    to->size = lt_vm_u32(at + 4);
    to->name = lt_vm_ref(u->vm, at + u->at->ctype_name);
    return true;
}

static uint32_t kind_of(const struct ctype *t)
{
    return t->info >> 28;
}

/* Get the type itself, which attributes and typedefs may precede. */
static bool get_raw(const struct snapshot *u, uint32_t id, struct ctype *to)
{
    bool found = ctype_get(u, id, to);
    for (uint32_t i = 0; found && i < MOST_STEPS; i++) {
        if (kind_of(to) != KIND_ATTRIBUTE && kind_of(to) != KIND_TYPEDEF)
            return true;
        found = ctype_get(u, to->info & 0xffff, to);
    }
    return false;
}

/* A cdata that has a variable size or a large alignment is preceded by the distance to the start of its block
 * (2 bytes), the bytes that its block has besides the content (2 bytes), and the bytes of the content (4
 * bytes). */
static uint64_t variable_bytes(uint64_t cdata, uint64_t *block)
{
    *block = cdata - program_number(cdata - 8, 2);
    return program_number(cdata - 6, 2) + lt_vm_u32(cdata - 4);
}

uint64_t cdata_bytes(const struct snapshot *u, uint64_t cdata, uint64_t *block)
{
    struct ctype t;
    *block = cdata;
    if (program_number(cdata + u->at->gct - 1, 1) & VARIABLE_CDATA)
        return variable_bytes(cdata, block);
    if (!get_raw(u, (uint32_t)program_number(cdata + u->at->ffid, 2), &t))
        return 0;
    return u->at->cdata_bytes + (kind_of(&t) <= KIND_ENUM ? t.size : POINTER_BYTES);
}

/* A name that is being built: the text before and after the declared object. */
struct spelling {
    char before[SNAPSHOT_TEXT], after[SNAPSHOT_TEXT];
    uint32_t qualifiers; /* of the next type */
    bool pointed_to;     /* the last type was a pointer: an array or function needs parentheses */
};

static void text_append(char *to, const char *text)
{
    uint32_t n = text_length(to), m = text_length(text);
    if (n + m < SNAPSHOT_TEXT)
        memcpy(to + n, text, m + 1);
}

static void prepend(char *to, const char *text)
{
    uint32_t n = text_length(to), m = text_length(text);
    if (n + m >= SNAPSHOT_TEXT)
        return;
    memmove(to + m, to, n + 1);
    memcpy(to, text, m);
}

/* Prepend a word, and a space if text follows. */
static void prepend_word(char *to, const char *word)
{
    if (to[0])
        prepend(to, " ");
    prepend(to, word);
}

static void prepend_qualifiers(char *to, uint32_t qualifiers)
{
    if (qualifiers & VOLATILE)
        prepend_word(to, "volatile");
    if (qualifiers & CONST)
        prepend_word(to, "const");
}

static const char *float_name(uint32_t size)
{
    return size == 4 ? "float" : size == 8 ? "double" : "long double";
}

static const char *number_name(const struct ctype *t)
{
    static const char *const names[2][4] = {{"char", "short", "int", "int64_t"},
                                            {"unsigned char", "unsigned short", "unsigned int", "uint64_t"}};
    uint32_t log = t->size == 8 ? 3 : t->size == 4 ? 2 : t->size == 2 ? 1 : 0;
    if (t->info & BOOL)
        return "bool";
    return t->info & FLOAT ? float_name(t->size) : names[(t->info & UNSIGNED) != 0][log];
}

/* The name of a typedef that refers to this type, which has no name of its own. */
static uint64_t typedef_of(const struct snapshot *u, uint32_t id)
{
    struct ctype t;
    for (uint32_t i = 1; ctype_get(u, i, &t); i++)
        if (kind_of(&t) == KIND_TYPEDEF && (t.info & 0xffff) == id)
            return t.name;
    return 0;
}

static void get_string(const struct snapshot *u, char *to, uint64_t string)
{
    uint32_t length = string_length(u->vm, string);
    if (length >= SNAPSHOT_TEXT || !program_read(string + u->vm->layout->string_header, to, length))
        length = 0;
    to[length] = 0;
}

static void tagged_name(const struct snapshot *u, char *to, uint32_t id, const struct ctype *t)
{
    uint64_t other = t->name ? 0 : typedef_of(u, id);
    if (t->name || other)
        get_string(u, to, t->name ? t->name : other);
    else
        text_print(to, SNAPSHOT_TEXT, "%u", id);
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
    s->pointed_to = true;
}

/* Put a pointer to an array or function into parentheses. */
static void enclose(struct spelling *s)
{
    if (s->pointed_to) {
        prepend(s->before, "(");
        text_append(s->after, ")");
    }
    s->pointed_to = false;
}

/* The number of elements is known if their size is. */
static void spell_array(struct spelling *s, const struct snapshot *u, const struct ctype *t)
{
    char text[40];
    struct ctype element;
    enclose(s);
    if (t->size == NO_SIZE)
        text_copy(text, t->info & VARIABLE ? "[?]" : "[]");
    else if (get_raw(u, t->info & 0xffff, &element) && element.size)
        text_print(text, sizeof text, "[%u]", t->size / element.size);
    else
        text_copy(text, "[0]");
    text_append(s->after, text);
}

/* To the FFI, complex numbers and vectors are arrays. Returns true if the type is a complex number, which
 * ends the name. */
static bool spell_complex(struct spelling *s, const struct ctype *t)
{
    if (!(t->info & COMPLEX))
        return false;
    prepend_word(s->before, t->size == 8 ? "complex float" : "complex");
    return true;
}

static void spell_vector(struct spelling *s, const struct ctype *t)
{
    char text[60];
    text_print(text, sizeof text, "__attribute__((vector_size(%u)))", t->size);
    prepend_word(s->before, text);
}

/* Spell one type, from the outside inwards. Returns true if another one follows. */
static bool spell(struct spelling *s, const struct snapshot *u, uint32_t id, const struct ctype *t)
{
    char name[SNAPSHOT_TEXT];
    switch (kind_of(t)) {
    case KIND_POINTER:
        spell_pointer(s, t);
        return true;
    case KIND_ARRAY:
        if (spell_complex(s, t))
            break;
        if (t->info & VECTOR)
            spell_vector(s, t);
        else
            spell_array(s, u, t);
        return true;
    case KIND_FUNCTION:
        enclose(s);
        text_append(s->after, "()");
        return true;
    case KIND_ATTRIBUTE:
        if ((t->info >> ATTRIBUTE_SHIFT & ATTRIBUTE_MASK) == ATTRIBUTE_QUALIFIERS)
            s->qualifiers |= t->size;
        return true;
    case KIND_TYPEDEF:
        return true;
    case KIND_STRUCT:
    case KIND_ENUM:
        tagged_name(u, name, id, t);
        prepend_word(s->before, name);
        break;
    default:
        prepend_word(s->before, kind_of(t) == KIND_VOID ? "void" : number_name(t));
    }
    prepend_qualifiers(s->before, s->qualifiers | (t->info & QUALIFIERS));
    return false;
}

/* The types are spelled from the outermost inwards, with the declared object in the middle. */
/* Does the text end in a character that no space follows? */
static bool ends_in_pointer(const char *text)
{
    const char last = text[text_length(text) - 1];
    return last == '*' || last == '&' || last == '(';
}

void ctype_name(const struct snapshot *u, uint32_t id, char *to)
{
    struct spelling s = {.before = ""};
    struct ctype t;
    for (uint32_t i = 0; i < MOST_STEPS && ctype_get(u, id, &t) && spell(&s, u, id, &t); i++)
        id = t.info & 0xffff;
    text_copy(to, s.before);
    if (s.after[0] && to[0] && !ends_in_pointer(to))
        text_append(to, " ");
    text_append(to, s.after);
}
