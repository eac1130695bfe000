/* inlined.c - read the inlined functions of a compilation unit from its tree of entries.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An entry's offset lies between the offsets of the entry around it and of what follows that. So the namespaces
 * and classes around a function are found in the same way as the calls around an address: see nesting.h.
 */
#include "ljtrace/symbols/inlined.h"
#include "ljtrace/symbols/nesting.h"
#include <dwarf.h>
#include <libiberty/demangle.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deeper entries are not read. Compilers nest a few dozen levels. */
enum { MOST_LEVELS = 500 };

struct call {
    Dwarf_Off entry;
    uint32_t around; /* the call that contains it */
    uint32_t line;
    char *function; /* NULL: not yet looked up */
    const char *file;
};

struct inlined {
    Dwarf_Die unit;
    Dwarf_Die files; /* the unit whose table has the names of files */
    Dwarf *dwarf;    /* the file that contains the unit */
    struct call *calls;
    uint32_t count, capacity;
    struct nesting code;   /* addresses; values are indexes of calls */
    struct nesting scopes; /* offsets of entries within namespaces, classes and functions */
    Dwarf_Off *scope;      /* by value of `scopes`: the entry */
    uint32_t scope_count, scope_capacity;
};

/* -- reading a unit -- */

struct reading {
    struct inlined *to;
    bool no_memory, damaged;
};

/* Make room for one more item. Returns false when out of memory. */
static bool reserve(void **items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    if (count > UINT32_MAX / 4)
        return false;
    uint32_t more = *capacity * 2 + 64;
    void *grown = realloc(*items, more * size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = more;
    return true;
}

/* Returns the index of the call, or INLINED_NONE when out of memory. */
static uint32_t add_call(struct inlined *s, Dwarf_Die *die, uint32_t around)
{
    if (!reserve((void **)&s->calls, s->count, &s->capacity, sizeof *s->calls))
        return INLINED_NONE;
    s->calls[s->count] = (struct call){.entry = dwarf_dieoffset(die), .around = around};
    return s->count++;
}

static bool add_code(struct inlined *s, Dwarf_Die *die, uint32_t call)
{
    Dwarf_Addr base, from, to;
    ptrdiff_t at = 0;
    bool ok = true;
    while (ok && (at = dwarf_ranges(die, at, &base, &from, &to)) > 0)
        ok = from >= to || nesting_add(&s->code, from, to, call);
    return ok;
}

/* to: the offset of what follows the entry. */
static bool add_scope(struct inlined *s, Dwarf_Die *die, Dwarf_Off to)
{
    if (!reserve((void **)&s->scope, s->scope_count, &s->scope_capacity, sizeof *s->scope))
        return false;
    s->scope[s->scope_count] = dwarf_dieoffset(die);
    return nesting_add(&s->scopes, dwarf_dieoffset(die) + 1, to, s->scope_count++);
}

static void read_children(struct reading *r, Dwarf_Die *die, uint32_t around, Dwarf_Off end, unsigned level);

/* around: the call that contains the entry. end: the offset of what follows it. */
static void read_entry(struct reading *r, Dwarf_Die *die, uint32_t around, Dwarf_Off end, unsigned level)
{
    switch (dwarf_tag(die)) {
    case DW_TAG_inlined_subroutine:
        around = add_call(r->to, die, around);
        r->no_memory = around == INLINED_NONE || !add_code(r->to, die, around);
        break;
    case DW_TAG_subprogram:
        around = INLINED_NONE;
        /* fall through */
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
        if (dwarf_haschildren(die) == 1)
            r->no_memory = !add_scope(r->to, die, end);
        break;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
        break;
    default:
        return;
    }
    if (level < MOST_LEVELS)
        read_children(r, die, around, end, level + 1);
}

static void read_children(struct reading *r, Dwarf_Die *die, uint32_t around, Dwarf_Off end, unsigned level)
{
    Dwarf_Die child, next;
    int none = dwarf_child(die, &child);
    while (none == 0 && !r->no_memory && !r->damaged) {
        none = dwarf_siblingof(&child, &next);
        read_entry(r, &child, around, none == 0 ? dwarf_dieoffset(&next) : end, level);
        child = next;
    }
    if (none < 0)
        r->damaged = true;
}

/* In split debug information, clang numbers files by the table of the skeleton unit, gcc by one in the .dwo file. */
static bool uses_files_of_skeleton(const struct inlined *s)
{
    Dwarf_Attribute attribute;
    Dwarf_Die unit = s->unit;
    const char *producer =
        dwarf_attr(&unit, DW_AT_producer, &attribute) ? dwarf_formstring(&attribute) : NULL;
    return producer && strstr(producer, "clang");
}

struct inlined *inlined_new(const Dwarf_Die *unit, const Dwarf_Die *skeleton, const char **problem)
{
    struct inlined *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->unit = *unit;
    s->files = uses_files_of_skeleton(s) ? *skeleton : *unit;
    s->dwarf = dwarf_cu_getdwarf(unit->cu);
    struct reading r = {.to = s};
    read_children(&r, &s->unit, INLINED_NONE, UINT64_MAX, 0);
    if (r.damaged)
        *problem = dwarf_errmsg(-1);
    nesting_sort(&s->code);
    nesting_sort(&s->scopes);
    if (!r.no_memory)
        return s;
    inlined_free(s);
    return NULL;
}

void inlined_free(struct inlined *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->count; i++)
        free(s->calls[i].function);
    free(s->calls);
    free(s->scope);
    nesting_free(&s->code);
    nesting_free(&s->scopes);
    free(s);
}

/* -- names -- */

/* A name made of parts. Longer ones are cut. */
struct name {
    char text[4096];
    size_t length;
};

static void append(struct name *n, const char *part)
{
    size_t length = strlen(part), room = sizeof n->text - 1 - n->length;
    if (length > room)
        length = room;
    memcpy(n->text + n->length, part, length);
    n->length += length;
    n->text[n->length] = 0;
}

static void append_scope(struct name *n, Dwarf_Die *scope)
{
    const char *name = dwarf_diename(scope);
    int tag = dwarf_tag(scope);
    bool anonymous = !name || !*name;
    append(n, !anonymous ? name : tag == DW_TAG_namespace ? "(anonymous namespace)" : "{unnamed type}");
    append(n, tag == DW_TAG_subprogram ? "()::" : "::");
}

/* Follow the references from an inlined call to the function's declaration, which lies in its class or namespace. */
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

/* outermost first */
static void append_scopes(struct inlined *s, struct name *n, Dwarf_Off offset, uint32_t at)
{
    Dwarf_Die scope;
    uint32_t value = nesting_next(&s->scopes, offset, &at);
    if (value == NESTING_NONE)
        return;
    append_scopes(s, n, offset, at);
    if (dwarf_offdie(s->dwarf, s->scope[value], &scope))
        append_scope(n, &scope);
}

/* The same for an entry of another unit, which is searched from its start on. */
static void append_scopes_elsewhere(struct name *n, Dwarf_Die *die)
{
    Dwarf_Die *scopes;
    int count = dwarf_getscopes_die(die, &scopes);
    for (int i = count - 1; i > 0; i--)
        switch (dwarf_tag(&scopes[i])) {
        case DW_TAG_compile_unit:
        case DW_TAG_partial_unit:
        case DW_TAG_type_unit:
        case DW_TAG_lexical_block:
            break;
        default:
            append_scope(n, &scopes[i]);
        }
    if (count > 0)
        free(scopes);
}

/* Functions of C have no scopes. */
static bool is_c(struct inlined *s)
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

/* The name of a function without a linkage name, which only functions with external linkage have. Returns NULL when
 * out of memory. */
static char *scoped_name(struct inlined *s, Dwarf_Die *call)
{
    struct name n = {.length = 0};
    const char *name = dwarf_diename(call);
    Dwarf_Die declaration = declaration_of(*call);
    if (name && !is_c(s)) {
        if (declaration.cu == s->unit.cu)
            append_scopes(s, &n, dwarf_dieoffset(&declaration), NESTING_NONE);
        else
            append_scopes_elsewhere(&n, &declaration);
    }
    append(&n, name ? name : "");
    return strdup(n.text);
}

/* The name as Valgrind has it for functions that are not inlined. Returns NULL when out of memory. */
static char *name_of(struct inlined *s, Dwarf_Die *call)
{
    Dwarf_Attribute attribute;
    const char *linkage = NULL;
    if (dwarf_attr_integrate(call, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(call, DW_AT_MIPS_linkage_name, &attribute))
        linkage = dwarf_formstring(&attribute);
    if (!linkage)
        return scoped_name(s, call);
    char *demangled = cplus_demangle(linkage, DMGL_ANSI | DMGL_PARAMS);
    return demangled ? demangled : strdup(linkage);
}

/* -- look-ups -- */

uint32_t inlined_at(const struct inlined *s, uint64_t address)
{
    return nesting_find(&s->code, address);
}

uint32_t inlined_around(const struct inlined *s, uint32_t call)
{
    return s->calls[call].around;
}

static uint32_t number_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Word value;
    bool known = dwarf_attr(die, name, &attribute) && dwarf_formudata(&attribute, &value) == 0;
    return known && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static const char *file_of(struct inlined *s, uint32_t number)
{
    Dwarf_Files *files;
    size_t count;
    return dwarf_getsrcfiles(&s->files, &files, &count) == 0 && number < count
               ? dwarf_filesrc(files, number, NULL, NULL)
               : NULL;
}

static void look_up(struct inlined *s, struct call *c)
{
    Dwarf_Die die;
    if (!dwarf_offdie(s->dwarf, c->entry, &die))
        return;
    c->function = name_of(s, &die);
    c->line = number_of(&die, DW_AT_call_line);
    c->file = c->line ? file_of(s, number_of(&die, DW_AT_call_file)) : NULL;
}

struct inlined_call inlined_call(struct inlined *s, uint32_t call)
{
    struct call *c = &s->calls[call];
    if (!c->function)
        look_up(s, c);
    return (struct inlined_call){c->function ? c->function : "", c->file, c->line};
}
