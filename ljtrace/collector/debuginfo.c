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

/* The addresses [from, to) of a compilation unit's code, as its debug information counts them. */
struct span {
    uint64_t from, to;
    Dwarf_Off unit; /* offset of the unit's first entry */
};

/* An object of the program, with its debug information once it was looked up. */
struct object {
    struct object *next;
    char *path;         /* the name used by look-ups */
    struct stat status; /* of the file that was opened */
    /* The file, until it is read; -1: open it by its path. */
    int fd;
    /* The program has mapped this file. The path may lead to another one by now. */
    bool mapped;
    bool looked_into;
    Dwfl *dwfl; /* NULL: the object has no lines */
    Dwarf *dwarf;
    const char *problem; /* why lines are missing; NULL = none are */
    uint64_t shift;      /* debug information's address - file's address */
    struct span *spans;
    size_t count, capacity;
};

struct debuginfo {
    struct object *objects; /* most recently used first */
};

/* Does the folder `front` + `folder` + `back` contain a readable file of this name? */
static bool is_there(const char *front, const char *folder, const char *back, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s%s/%s", front, folder, back, name);
    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

/* Is there a debug file for the build id of this object? */
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

/* Is there a debug file of the name in the object's .gnu_debuglink, where debuggers look for it? */
static bool is_known_link(const char *object, const char *link)
{
    char folder[PATH_MAX];
    if (!link || !object || !realpath(object, folder))
        return false;
    *strrchr(folder, '/') = 0;
    return is_there("", folder, "", link) || is_there("", folder, "/.debug", link) ||
           is_there("/usr/lib/debug", folder, "", link) || is_there("/usr/lib/debug", "", "", link);
}

/* If libdwfl finds no debug file itself it calls debuginfod's client. For that it loads libraries for the
 * network, which takes 30 ms for each object without debug information. So libdwfl is called only if a debug
 * file exists. */
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
    unsetenv("DEBUGINFOD_URLS"); /* else libdwfl would ask these servers */
    return calloc(1, sizeof(struct debuginfo));
}

/* Return false when out of memory. */
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

/* Does this unit contain code? If debug information is split, a skeleton unit with the lines remains in the
 * object. */
static bool has_code(Dwarf_Die *unit)
{
    int tag = dwarf_tag(unit);
    return tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit;
}

/* Collect the address ranges of all units. Not from .debug_aranges, as not every object has that section. */
static void add_units(struct object *o)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    int end = 0;
    bool ok = true;
    while (ok && end == 0 && (end = dwarf_get_units(o->dwarf, cu, &cu, NULL, NULL, &unit, NULL)) == 0)
        if (dwarf_tag(&unit) == DW_TAG_invalid)
            end = -1; /* unknown abbreviation: the rest cannot be decoded */
        else
            ok = !has_code(&unit) || add_unit(o, &unit);
    if (end < 0)
        o->problem = dwarf_errmsg(-1);
    if (o->count)
        qsort(o->spans, o->count, sizeof *o->spans, by_address);
}

/* Does the file have sections of debug information, compressed or not? */
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

/* Open the debug information and find how its addresses differ from the file's. Returns NULL if there is
 * none. */
static Dwarf *open_dwarf(struct object *o)
{
    GElf_Addr elf_bias = 0;
    Dwarf_Addr dwarf_bias = 0;
    Elf *elf;
    Dwfl_Module *module = dwfl_report_offline(o->dwfl, o->path, o->path, o->fd);
    if (module)
        o->fd = -1; /* libdwfl owns it now */
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

/* Read an object's debug information. A file without lines is closed again. */
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

/* Close the object's file if its path leads to another file by now: programs may build a library, load it and
 * build it again. If the file was removed, what was read of it stays valid. */
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

/* Return NULL when out of memory. */
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

/* Find an object by the path that look-ups use, or add it. Returns NULL when out of memory. */
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

/* Find the span that contains an address; NULL = none. */
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
