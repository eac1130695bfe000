/* debuginfo.c - see debuginfo.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/debuginfo.h"
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Code of a compilation unit: [from, to), as its debug information counts addresses. */
struct span {
    uint64_t from, to;
    Dwarf_Off unit; /* of its first entry */
};

struct object {
    struct object *next;
    char *path;         /* by which it is asked for */
    struct stat status; /* of the file that was opened */
    int fd;             /* of the file, as long as it is not looked into; -1: it is opened by its path */
    bool mapped;        /* the program is known to have mapped this file, whatever the path leads to now */
    bool looked_into;
    Dwfl *dwfl; /* NULL: it has no lines */
    Dwarf *dwarf;
    const char *problem; /* why lines are missing; NULL = they are not */
    uint64_t shift;      /* from the file's addresses to the debug information's */
    struct span *spans;
    size_t count, capacity;
};

struct debuginfo {
    struct object *objects; /* the one asked for last is first */
};

/* Is there a file of this name in the folder `front` + `folder` + `back`? */
static bool is_there(const char *front, const char *folder, const char *back, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s%s/%s", front, folder, back, name);
    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

/* Is the debug information that an object refers to by its build id installed? */
static bool is_known_build(Dwfl_Module *module)
{
    const unsigned char *id;
    GElf_Addr at;
    char name[2 * 64 + sizeof "xx/.debug"];
    const int n = dwfl_module_build_id(module, &id, &at);
    if (n < 2 || n > 64)
        return false;
    char *end = name + sprintf(name, "%02x/", id[0]);
    for (int i = 1; i < n; i++)
        end += sprintf(end, "%02x", id[i]);
    strcpy(end, ".debug");
    return is_there("", "/usr/lib/debug/.build-id", "", name);
}

/* Is there a file by the name that an object gives, where debuggers look for it? */
static bool is_known_link(const char *object, const char *link)
{
    char folder[PATH_MAX];
    if (!link || !object || !realpath(object, folder))
        return false;
    *strrchr(folder, '/') = 0;
    return is_there("", folder, "", link) || is_there("", folder, "/.debug", link) ||
           is_there("/usr/lib/debug", folder, "", link) || is_there("/usr/lib/debug", "", "", link);
}

/* What libdwfl does not find it looks for with debuginfod's client, which it loads for that, and libraries
 * for the network with it: 30 ms for an object that has none. So it is asked only where there is something.
 */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **found)
{
    if (!is_known_build(module) && !is_known_link(file, link))
        return -1;
    return dwfl_standard_find_debuginfo(module, data, name, base, file, link, crc, found);
}

static const Dwfl_Callbacks s_callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

struct debuginfo *debuginfo_new(void)
{
    unsetenv("DEBUGINFOD_URLS"); /* libdwfl would ask there */
    return calloc(1, sizeof(struct debuginfo));
}

/* False when out of memory. */
static bool add_span(struct object *o, uint64_t from, uint64_t to, Dwarf_Off unit)
{
    if (o->count == o->capacity) {
        size_t capacity = o->capacity * 2 + 64;
        struct span *spans = realloc(o->spans, capacity * sizeof *spans);
        if (!spans)
            return false;
        o->spans = spans;
        o->capacity = capacity;
    }
    o->spans[o->count++] = (struct span){from, to, unit};
    return true;
}

static bool add_unit(struct object *o, Dwarf_Die *unit)
{
    Dwarf_Addr base, from, to;
    ptrdiff_t at = 0;
    bool ok = true;
    while (ok && (at = dwarf_ranges(unit, at, &base, &from, &to)) > 0)
        ok = from >= to || add_span(o, from, to, dwarf_dieoffset(unit));
    return ok;
}

static int by_address(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Has this unit code? Split debug information leaves a skeleton of it in the object, with its lines. */
static bool has_code(Dwarf_Die *unit)
{
    int tag = dwarf_tag(unit);
    return tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit;
}

/* Where the code of each unit is. The section that may tell so, .debug_aranges, need not be there. */
static void add_units(struct object *o)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    int end = 0;
    bool ok = true;
    while (ok && end == 0 && (end = dwarf_get_units(o->dwarf, cu, &cu, NULL, NULL, &unit, NULL)) == 0)
        if (dwarf_tag(&unit) == DW_TAG_invalid)
            end = -1; /* no such abbreviation: nothing that follows can be trusted */
        else
            ok = !has_code(&unit) || add_unit(o, &unit);
    if (end < 0)
        o->problem = dwarf_errmsg(-1);
    if (o->count)
        qsort(o->spans, o->count, sizeof *o->spans, by_address);
}

/* Has the file sections of debug information, compressed or not? */
static bool has_sections(Elf *elf)
{
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name && (strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0))
            return true;
    }
    return false;
}

/* The debug information, and how its addresses differ from the file's; NULL if there is none. */
static Dwarf *open_dwarf(struct object *o)
{
    GElf_Addr elf_bias = 0;
    Dwarf_Addr dwarf_bias = 0;
    Elf *elf;
    Dwfl_Module *module = dwfl_report_offline(o->dwfl, o->path, o->path, o->fd);
    if (module)
        o->fd = -1; /* libdwfl's now */
    dwfl_report_end(o->dwfl, NULL, NULL);
    if (!module || !(elf = dwfl_module_getelf(module, &elf_bias)))
        return NULL;
    Dwarf *dwarf = dwfl_module_getdwarf(module, &dwarf_bias);
    if (!dwarf && has_sections(elf))
        o->problem = dwfl_errmsg(-1);
    o->shift = elf_bias - dwarf_bias;
    return dwarf;
}

static void close_object(struct object *o)
{
    if (o->dwfl)
        dwfl_end(o->dwfl);
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    o->dwfl = NULL;
    o->dwarf = NULL;
    o->count = 0;
    o->looked_into = false;
}

/* Files without lines need not stay open. */
static void look_into(struct object *o)
{
    o->dwfl = dwfl_begin(&s_callbacks);
    o->dwarf = o->dwfl ? open_dwarf(o) : NULL;
    if (o->dwarf)
        add_units(o);
    else
        close_object(o);
    o->looked_into = true;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Programs build libraries, load them, and build them again. What is gone is still what it was. */
static void keep_up(struct object *o)
{
    struct stat now;
    if (o->mapped || stat(o->path, &now) != 0 || is_same_file(&now, &o->status))
        return;
    close_object(o);
    o->status = now;
}

static void free_object(struct object *o)
{
    close_object(o);
    free(o->spans);
    free(o->path);
    free(o);
}

/* NULL when out of memory. */
static struct object *new_object(const char *path)
{
    struct object *o = calloc(1, sizeof *o);
    if (o && !(o->path = strdup(path))) {
        free(o);
        return NULL;
    }
    if (o)
        o->fd = -1;
    return o;
}

/* NULL when out of memory. */
static struct object *find_object(struct debuginfo *d, const char *path)
{
    struct object **at = &d->objects;
    while (*at && strcmp((*at)->path, path) != 0)
        at = &(*at)->next;
    struct object *o = *at ? *at : new_object(path);
    if (!o)
        return NULL;
    if (*at)
        *at = o->next;
    o->next = d->objects;
    d->objects = o;
    return o;
}

void debuginfo_free(struct debuginfo *d)
{
    while (d->objects) {
        struct object *o = d->objects;
        d->objects = o->next;
        free_object(o);
    }
    free(d);
}

/* The last span that begins at an address or before it. */
static const struct span *span_at(const struct object *o, uint64_t address)
{
    size_t low = 0, high = o->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (o->spans[middle].from <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < o->spans[low - 1].to ? &o->spans[low - 1] : NULL;
}

bool debuginfo_find(struct debuginfo *d, const char *object, uint64_t address, struct debuginfo_line *line)
{
    struct object *o = find_object(d, object);
    if (!o)
        return false;
    keep_up(o);
    if (!o->looked_into)
        look_into(o);
    const struct span *span = span_at(o, address + o->shift);
    Dwarf_Die unit;
    Dwarf_Lines *lines;
    size_t count;
    int number;
    if (!span || !dwarf_offdie(o->dwarf, span->unit, &unit))
        return false;
    if (dwarf_getsrclines(&unit, &lines, &count) != 0) {
        o->problem = dwarf_errmsg(-1);
        return false;
    }
    Dwarf_Line *found = dwarf_getsrc_die(&unit, address + o->shift);
    if (!found || dwarf_lineno(found, &number) != 0 || number <= 0)
        return false;
    *line = (struct debuginfo_line){dwarf_linesrc(found, NULL, NULL), (uint32_t)number};
    return line->file != NULL;
}

void debuginfo_mapped(struct debuginfo *d, const char *object, const char *path)
{
    struct stat now;
    struct object *o = find_object(d, object);
    int fd = o ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &now) != 0 || (o->mapped && is_same_file(&now, &o->status))) {
        if (fd >= 0)
            close(fd);
        return;
    }
    close_object(o);
    o->fd = fd;
    o->status = now;
    o->mapped = true;
}

void debuginfo_problems(const struct debuginfo *d,
                        void (*report)(void *ctx, const char *object, const char *why), void *ctx)
{
    for (const struct object *o = d->objects; o; o = o->next)
        if (o->problem)
            report(ctx, o->path, o->problem);
}
