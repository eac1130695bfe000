/* inlined.c - read the inlined functions of a compilation unit from its tree of entries.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/inlined.h"
#include "ljtrace/symbols/names.h"
#include "ljtrace/symbols/nesting.h"
#include <dwarf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Deeper entries are not read. Compilers nest a few dozen levels. */
enum { MOST_LEVELS = 500 };

struct call {
    Dwarf_Off entry;
    uint32_t around; /* the call that contains it */
    uint32_t known;  /* index of what is known of it, plus 1; 0 = it was not yet looked up */
};

/* A call that was looked up; most calls never are. */
struct known {
    char *function; /* NULL: out of memory */
    const char *file;
    uint32_t line;
};

struct inlined {
    Dwarf_Die unit;
    Dwarf_Die files; /* the unit whose table has the names of files */
    Dwarf *dwarf;    /* the file that contains the unit */
    struct call *calls;
    uint32_t count, capacity;
    struct known *known;
    uint32_t known_count, known_capacity;
    struct nesting code; /* addresses; values are indexes of calls */
    struct scopes *scopes;
};

/* -- reading a unit -- */

struct reading {
    struct inlined *to;
    uint64_t named; /* entries that names refer to: functions and types */
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

static void read_children(struct reading *r, Dwarf_Die *die, uint32_t around, Dwarf_Off end, unsigned level);

/* Read the entries in a namespace, class or function. It is kept if names refer to any of them. */
static void read_scope(struct reading *r, Dwarf_Die *die, uint32_t around, Dwarf_Off end, unsigned level)
{
    const uint64_t before = r->named;
    r->no_memory = !scopes_add(r->to->scopes, die, end);
    read_children(r, die, around, end, level);
    if (r->named == before)
        scopes_drop_last(r->to->scopes);
}

/* around: the call that contains the entry. end: the offset of what follows it. */
static void read_entry(struct reading *r, Dwarf_Die *die, uint32_t around, Dwarf_Off end, unsigned level)
{
    const bool is_parent = level < MOST_LEVELS && dwarf_haschildren(die) == 1;
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
        if (is_parent)
            read_scope(r, die, around, end, level + 1);
        /* fall through */
    case DW_TAG_enumeration_type:
        r->named++;
        return;
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_with_stmt:
        break;
    default:
        return;
    }
    if (is_parent)
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

/* In split debug information, clang numbers files by the table of the skeleton unit, gcc by one in the .dwo file. GCC's
 * DWARF 5 with -gsplit-dwarf -fdebug-types-section has several .debug_info.dwo sections, of which libdw 0.188 reads the
 * first, so that no function is found there. */
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
    s->scopes = scopes_new(unit);
    struct reading r = {.to = s, .no_memory = !s->scopes};
    read_children(&r, &s->unit, INLINED_NONE, UINT64_MAX, 0);
    if (r.damaged)
        *problem = dwarf_errmsg(-1);
    if (r.no_memory) {
        inlined_free(s);
        return NULL;
    }
    nesting_sort(&s->code);
    scopes_sort(s->scopes);
    return s;
}

void inlined_free(struct inlined *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->known_count; i++)
        free(s->known[i].function);
    free(s->known);
    free(s->calls);
    nesting_free(&s->code);
    scopes_free(s->scopes);
    free(s);
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

/* Look a call up for the first time. Returns false when out of memory. */
static bool look_up(struct inlined *s, struct call *c)
{
    Dwarf_Die die;
    struct known k = {0};
    if (!reserve((void **)&s->known, s->known_count, &s->known_capacity, sizeof *s->known))
        return false;
    if (dwarf_offdie(s->dwarf, c->entry, &die)) {
        k.function = scopes_name(s->scopes, &die);
        k.line = number_of(&die, DW_AT_call_line);
        k.file = k.line ? file_of(s, number_of(&die, DW_AT_call_file)) : NULL;
    }
    s->known[s->known_count++] = k;
    c->known = s->known_count;
    return true;
}

struct inlined_call inlined_call(struct inlined *s, uint32_t call)
{
    struct call *c = &s->calls[call];
    if (!c->known && !look_up(s, c))
        return (struct inlined_call){.function = ""};
    const struct known *k = &s->known[c->known - 1];
    return (struct inlined_call){k->function ? k->function : "", k->file, k->line};
}
