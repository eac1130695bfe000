/* names.c - names functions by the entries of a compilation unit's debug information.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An entry's offset lies between the offsets of the entry around it and of what follows that. So the namespaces and
 * classes around an entry are found as ranges around its offset: see nesting.h.
 */
#include "ljtrace/symbols/names.h"
#include "ljtrace/symbols/nesting.h"
#include <ctype.h>
#include <dwarf.h>
#include <inttypes.h>
#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types and functions within more types and functions than this are not shown in full. */
enum { MOST_LEVELS = 30 };

struct scopes {
    Dwarf_Die unit;
    Dwarf *dwarf;         /* the file that contains the unit */
    struct nesting inner; /* offsets of entries within each scope */
    Dwarf_Off *entries;   /* by value of `inner` */
    uint32_t count, capacity;
};

/* -- the entries of a unit -- */

struct scopes *scopes_new(const Dwarf_Die *unit)
{
    struct scopes *s = calloc(1, sizeof *s);
    if (s) {
        s->unit = *unit;
        s->dwarf = dwarf_cu_getdwarf(unit->cu);
    }
    return s;
}

void scopes_free(struct scopes *s)
{
    if (!s)
        return;
    nesting_free(&s->inner);
    free(s->entries);
    free(s);
}

bool scopes_add(struct scopes *s, Dwarf_Die *die, Dwarf_Off to)
{
    if (s->count == s->capacity) {
        const uint32_t capacity = s->capacity * 2 + 64;
        Dwarf_Off *grown = realloc(s->entries, capacity * sizeof *grown);
        if (!grown)
            return false;
        s->entries = grown;
        s->capacity = capacity;
    }
    s->entries[s->count] = dwarf_dieoffset(die);
    return nesting_add(&s->inner, dwarf_dieoffset(die) + 1, to, s->count++);
}

void scopes_drop_last(struct scopes *s)
{
    if (s->count) {
        s->count--;
        s->inner.count--;
    }
}

void scopes_sort(struct scopes *s)
{
    nesting_sort(&s->inner);
}

/* -- parts of names -- */

/* A name made of parts. Longer ones are cut. */
struct name {
    char text[4096];
    size_t length;
};

static void append_bytes(struct name *n, const char *part, size_t length)
{
    const size_t room = sizeof n->text - 1 - n->length;
    if (length > room)
        length = room;
    memcpy(n->text + n->length, part, length);
    n->length += length;
    n->text[n->length] = 0;
}

static void name_append(struct name *n, const char *part)
{
    append_bytes(n, part, strlen(part));
}

static bool has_flag(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    bool value;
    return dwarf_attr(die, name, &attribute) && dwarf_formflag(&attribute, &value) == 0 && value;
}

/* The type of an entry. Returns false if it has none. */
static bool type_of(Dwarf_Die *die, Dwarf_Die *type)
{
    Dwarf_Attribute attribute;
    return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, type);
}

/* Follow the references from an entry of a function to its declaration, which lies in its class or namespace. */
static Dwarf_Die declaration_of(Dwarf_Die die)
{
    Dwarf_Attribute attribute;
    for (unsigned i = 0; i < 16; i++) {
        Dwarf_Die next;
        if ((!dwarf_attr(&die, DW_AT_abstract_origin, &attribute) &&
             !dwarf_attr(&die, DW_AT_specification, &attribute)) ||
            !dwarf_formref_die(&attribute, &next))
            break;
        die = next;
    }
    return die;
}

static bool is_cplusplus(struct scopes *s)
{
    switch (dwarf_srclang(&s->unit)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
        return true;
    default:
        return false;
    }
}

/* Functions of C have no scopes. */
static bool is_c(struct scopes *s)
{
    switch (dwarf_srclang(&s->unit)) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
        return true;
    default:
        return false;
    }
}

static void append_scopes(struct scopes *s, struct name *n, Dwarf_Die *die, unsigned level);
static void append_unnamed(struct scopes *s, struct name *n, Dwarf_Die *class, unsigned level);
static void append_type(struct scopes *s, struct name *n, Dwarf_Die *type, unsigned level);

/* Shall no more be appended? Damaged debug information can have types that contain themselves. */
static bool is_full(const struct name *n, unsigned level)
{
    return level > MOST_LEVELS || n->length + 1 >= sizeof n->text;
}

/* -- parameters -- */

/* Compilers write the names of C's types in several ways: theirs, and the one that demanglers write. */
static const char *const s_names[][2] = {{"long int", "long"},
                                         {"long unsigned int", "unsigned long"},
                                         {"long long int", "long long"},
                                         {"long long unsigned int", "unsigned long long"},
                                         {"short int", "short"},
                                         {"short unsigned int", "unsigned short"},
                                         {"__int128 unsigned", "unsigned __int128"}};
enum { NAMES = sizeof s_names / sizeof *s_names };

static const char *base_name(const char *name)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(name, s_names[i][0]) == 0)
            return s_names[i][1];
    return name;
}

static bool is_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Which of these types does a text begin with? NAMES = none */
static size_t base_name_at(const char *text)
{
    for (size_t i = 0; i < NAMES; i++) {
        const size_t length = strlen(s_names[i][0]);
        if (strncmp(text, s_names[i][0], length) == 0 && !is_of_word(text[length]))
            return i;
    }
    return NAMES;
}

/* Remove what does not belong to the type of a function: const and volatile of a parameter itself. */
static Dwarf_Die unqualified(Dwarf_Die type)
{
    Dwarf_Die inner;
    for (unsigned i = 0; i < MOST_LEVELS; i++) {
        const int tag = dwarf_tag(&type);
        if ((tag != DW_TAG_const_type && tag != DW_TAG_volatile_type) || !type_of(&type, &inner))
            break;
        type = inner;
    }
    return type;
}

/* Call `add` with each parameter of a function or function type, those of a pack too; not with that for the object. */
static void each_parameter(Dwarf_Die *die, void (*add)(Dwarf_Die *parameter, void *context), void *context)
{
    Dwarf_Die child;
    for (int none = dwarf_child(die, &child); none == 0; none = dwarf_siblingof(&child, &child))
        switch (dwarf_tag(&child)) {
        case DW_TAG_formal_parameter:
            if (has_flag(&child, DW_AT_artificial))
                break;
            /* fall through */
        case DW_TAG_unspecified_parameters:
            add(&child, context);
            break;
        case DW_TAG_GNU_formal_parameter_pack:
            each_parameter(&child, add, context);
            break;
        }
}

struct parameters {
    struct scopes *scopes;
    struct name *name;
    unsigned count, level;
};

static void append_parameter(Dwarf_Die *parameter, void *context)
{
    struct parameters *p = context;
    Dwarf_Die type;
    if (p->count++)
        name_append(p->name, ", ");
    if (dwarf_tag(parameter) == DW_TAG_unspecified_parameters) {
        name_append(p->name, "...");
    } else if (type_of(parameter, &type)) {
        type = unqualified(type);
        append_type(p->scopes, p->name, &type, p->level + 1);
    }
}

static void append_parameters(struct scopes *s, struct name *n, Dwarf_Die *die, unsigned level)
{
    struct parameters p = {.scopes = s, .name = n, .level = level};
    name_append(n, "(");
    each_parameter(die, append_parameter, &p);
    name_append(n, ")");
}

/* Does a member function take a constant object? */
static bool is_constant(Dwarf_Die *function)
{
    Dwarf_Attribute attribute;
    Dwarf_Die object, type;
    if (!dwarf_attr(function, DW_AT_object_pointer, &attribute) || !dwarf_formref_die(&attribute, &object) ||
        !type_of(&object, &type))
        return false;
    type = unqualified(type);
    return dwarf_tag(&type) == DW_TAG_pointer_type && type_of(&type, &object) &&
           dwarf_tag(&object) == DW_TAG_const_type;
}

/* -- types -- */

/* The numbers of elements of an array: [3][4]; [] if they are not known. */
static void append_bounds(struct name *n, Dwarf_Die *array)
{
    Dwarf_Die child;
    for (int none = dwarf_child(array, &child); none == 0; none = dwarf_siblingof(&child, &child)) {
        Dwarf_Attribute attribute;
        Dwarf_Word count = 0;
        char text[32] = "[]";
        if (dwarf_tag(&child) != DW_TAG_subrange_type)
            continue;
        if (dwarf_formudata(dwarf_attr(&child, DW_AT_count, &attribute), &count) == 0)
            snprintf(text, sizeof text, "[%" PRIu64 "]", (uint64_t)count);
        else if (dwarf_formudata(dwarf_attr(&child, DW_AT_upper_bound, &attribute), &count) == 0)
            snprintf(text, sizeof text, "[%" PRIu64 "]", (uint64_t)count + 1);
        name_append(n, text);
    }
}

/* What a pointer or a reference points to, and its sign. Functions and arrays are written around the sign. to: NULL =
 * void */
static void append_pointed(struct scopes *s, struct name *n, Dwarf_Die *to, const char *sign, unsigned level)
{
    Dwarf_Die inner, bare = to ? unqualified(*to) : (Dwarf_Die){0};
    const int tag = to ? dwarf_tag(&bare) : 0;
    const bool around = tag == DW_TAG_subroutine_type || tag == DW_TAG_array_type;
    if (!around) {
        append_type(s, n, to, level + 1);
        name_append(n, sign);
        return;
    }
    append_type(s, n, type_of(&bare, &inner) ? &inner : NULL, level + 1);
    name_append(n, dwarf_tag(to) == DW_TAG_const_type && dwarf_tag(&inner) != DW_TAG_const_type ? " const ("
                                                                                                : " (");
    name_append(n, sign);
    name_append(n, tag == DW_TAG_array_type ? ") " : ")");
    if (tag == DW_TAG_array_type) {
        append_bounds(n, &bare);
    } else {
        append_parameters(s, n, &bare, level);
        name_append(n, is_constant(&bare) ? " const" : "");
    }
}

static void append_pointer(struct scopes *s, struct name *n, Dwarf_Die *type, const char *sign,
                           unsigned level)
{
    Dwarf_Die to;
    append_pointed(s, n, type_of(type, &to) ? &to : NULL, sign, level);
}

/* A pointer to a member of a class: the class is a part of its sign. */
static void append_member_pointer(struct scopes *s, struct name *n, Dwarf_Die *type, unsigned level)
{
    struct name sign = {.length = 0};
    Dwarf_Die class, to, bare;
    Dwarf_Attribute attribute;
    if (dwarf_attr(type, DW_AT_containing_type, &attribute) && dwarf_formref_die(&attribute, &class))
        append_type(s, &sign, &class, level + 1);
    name_append(&sign, "::*");
    const bool known = type_of(type, &to);
    bare = known ? unqualified(to) : (Dwarf_Die){0};
    if (!known || dwarf_tag(&bare) != DW_TAG_subroutine_type) {
        append_type(s, n, known ? &to : NULL, level + 1);
        name_append(n, " ");
        name_append(n, sign.text);
    } else {
        append_pointed(s, n, &to, sign.text, level);
    }
}

/* -- templates -- */

/* Is it a name with the arguments of a template? */
static bool is_instance(const char *name)
{
    const size_t length = strlen(name);
    return length && name[length - 1] == '>' && strncmp(name, "operator", 8) != 0;
}

/* A text in which C's types are written as demanglers do. */
static void append_text(struct name *n, const char *text)
{
    for (const char *at = text; *at;) {
        const bool begins = at == text || !is_of_word(at[-1]);
        const size_t i = begins ? base_name_at(at) : NAMES;
        if (i < NAMES)
            name_append(n, s_names[i][1]);
        else
            append_bytes(n, at, 1);
        at += i < NAMES ? strlen(s_names[i][0]) : 1;
    }
}

/* A name. GCC writes C's types among the arguments of a template in its own way. */
static void append_named(struct scopes *s, struct name *n, const char *name)
{
    if (is_cplusplus(s) && is_instance(name))
        append_text(n, name);
    else
        name_append(n, name);
}

static void append_qualified(struct scopes *s, struct name *n, Dwarf_Die *type, const char *word,
                             unsigned level)
{
    Dwarf_Die inner;
    append_type(s, n, type_of(type, &inner) ? &inner : NULL, level + 1);
    name_append(n, word);
}

/* type: NULL = void */
static void append_type(struct scopes *s, struct name *n, Dwarf_Die *type, unsigned level)
{
    Dwarf_Die inner;
    const char *name = type ? dwarf_diename(type) : "void";
    if (is_full(n, level))
        return;
    switch (type ? dwarf_tag(type) : DW_TAG_base_type) {
    case DW_TAG_typedef:
        append_type(s, n, type_of(type, &inner) ? &inner : NULL, level + 1);
        break;
    case DW_TAG_const_type:
        append_qualified(s, n, type, " const", level);
        break;
    case DW_TAG_volatile_type:
        append_qualified(s, n, type, " volatile", level);
        break;
    case DW_TAG_pointer_type:
        append_pointer(s, n, type, "*", level);
        break;
    case DW_TAG_reference_type:
        append_pointer(s, n, type, "&", level);
        break;
    case DW_TAG_rvalue_reference_type:
        append_pointer(s, n, type, "&&", level);
        break;
    case DW_TAG_ptr_to_member_type:
        append_member_pointer(s, n, type, level);
        break;
    case DW_TAG_array_type:
        append_qualified(s, n, type, " ", level);
        append_bounds(n, type);
        break;
    case DW_TAG_base_type:
    case DW_TAG_unspecified_type:
        name_append(n, name ? base_name(name) : "?");
        break;
    default:
        append_scopes(s, n, type, level + 1);
        if (name && *name)
            append_named(s, n, name);
        else
            append_unnamed(s, n, type, level + 1);
    }
}

/* -- scopes -- */

/* A class without a name. That of a lambda is named after the parameters of its operator(). */
static void append_unnamed(struct scopes *s, struct name *n, Dwarf_Die *class, unsigned level)
{
    Dwarf_Die child;
    for (int none = dwarf_child(class, &child); none == 0; none = dwarf_siblingof(&child, &child)) {
        const char *name = dwarf_tag(&child) == DW_TAG_subprogram ? dwarf_diename(&child) : NULL;
        if (name && strcmp(name, "operator()") == 0) {
            name_append(n, "{lambda");
            append_parameters(s, n, &child, level + 1);
            name_append(n, "}");
            return;
        }
    }
    name_append(n, "{unnamed type}");
}

static void append_scope(struct scopes *s, struct name *n, Dwarf_Die *scope, unsigned level)
{
    const char *name = dwarf_diename(scope);
    const int tag = dwarf_tag(scope);
    if (tag == DW_TAG_subprogram) {
        Dwarf_Die declaration = declaration_of(*scope);
        append_scopes(s, n, &declaration, level + 1);
        name_append(n, name ? name : "");
        append_parameters(s, n, &declaration, level + 1);
    } else if (name && *name) {
        append_named(s, n, name);
    } else if (tag == DW_TAG_namespace) {
        name_append(n, "(anonymous namespace)");
    } else {
        append_unnamed(s, n, scope, level + 1);
    }
    name_append(n, "::");
}

/* The scopes around an offset, the outermost first. What is around a function is around its declaration. at: the last
 * range found, see nesting_next. */
static void append_scopes_around(struct scopes *s, struct name *n, Dwarf_Off offset, uint32_t at,
                                 unsigned level)
{
    Dwarf_Die scope;
    const uint32_t value = nesting_next(&s->inner, offset, &at);
    if (value == NESTING_NONE || !dwarf_offdie(s->dwarf, s->entries[value], &scope))
        return;
    if (dwarf_tag(&scope) != DW_TAG_subprogram)
        append_scopes_around(s, n, offset, at, level);
    append_scope(s, n, &scope, level);
}

/* The same for an entry of another unit, which is searched from its start on. */
static void append_scopes_elsewhere(struct scopes *s, struct name *n, Dwarf_Die *die, unsigned level)
{
    Dwarf_Die *scopes;
    const int count = dwarf_getscopes_die(die, &scopes);
    for (int i = count - 1; i > 0; i--)
        switch (dwarf_tag(&scopes[i])) {
        case DW_TAG_compile_unit:
        case DW_TAG_partial_unit:
        case DW_TAG_type_unit:
        case DW_TAG_lexical_block:
            break;
        default:
            append_scope(s, n, &scopes[i], level);
        }
    if (count > 0)
        free(scopes);
}

/* The namespaces, classes and functions around an entry, each with :: after it. */
static void append_scopes(struct scopes *s, struct name *n, Dwarf_Die *die, unsigned level)
{
    if (is_full(n, level))
        return;
    if (die->cu == s->unit.cu)
        append_scopes_around(s, n, dwarf_dieoffset(die), NESTING_NONE, level);
    else
        append_scopes_elsewhere(s, n, die, level);
}

/* -- names of functions -- */

/* An instance of a template is shown with the type that it returns. */
static void append_function(struct scopes *s, struct name *n, Dwarf_Die *die, const char *name)
{
    Dwarf_Die declaration = declaration_of(*die), type;
    if (is_cplusplus(s) && is_instance(name)) {
        append_type(s, n, type_of(&declaration, &type) ? &type : NULL, 0);
        name_append(n, " ");
    }
    if (!is_c(s))
        append_scopes(s, n, &declaration, 0);
    append_named(s, n, name);
    if (is_cplusplus(s)) {
        append_parameters(s, n, &declaration, 0);
        name_append(n, is_constant(&declaration) ? " const" : "");
    }
}

/* The mangled name. Of a function in C it can only be an alias. Returns NULL if there is none. */
static const char *linkage_name(struct scopes *s, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    return !is_c(s) && (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
                        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
               ? dwarf_formstring(&attribute)
               : NULL;
}

char *scopes_name(struct scopes *s, Dwarf_Die *die)
{
    struct name n = {.length = 0};
    const char *linkage = linkage_name(s, die), *name = dwarf_diename(die);
    if (linkage) {
        char *demangled = cplus_demangle(linkage, DMGL_ANSI | DMGL_PARAMS);
        return demangled ? demangled : strdup(linkage);
    }
    if (name)
        append_function(s, &n, die, name);
    return strdup(n.text);
}
