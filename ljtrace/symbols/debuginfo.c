/* debuginfo.c - look up code addresses with elfutils' libdw.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/debuginfo.h"
#include "ljtrace/symbols/build_id.h"
#include "ljtrace/symbols/functions.h"
#include "ljtrace/symbols/inlined.h"
#include "ljtrace/symbols/nesting.h"
#include "ljtrace/symbols/uncompressed.h"
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <libiberty/demangle.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- which unit has an address -- */

/* A table of .debug_aranges is one unit's. */
enum { HEADER_BYTES = 12, ADDRESS_BYTES = 8, PAIR_BYTES = 2 * ADDRESS_BYTES };

struct header {
    uint32_t length; /* of what follows */
    uint16_t version;
    uint32_t unit;
    uint8_t address_bytes, segment_bytes;
};

static struct header header_at(const uint8_t *at)
{
    struct header h = {.address_bytes = at[10], .segment_bytes = at[11]};
    memcpy(&h.length, at, sizeof h.length);
    memcpy(&h.version, at + 4, sizeof h.version);
    memcpy(&h.unit, at + 6, sizeof h.unit);
    return h;
}

/* Add the pairs of address and length of one table. */
static bool add_pairs(struct nesting *ranges, const uint8_t *at, const uint8_t *end, uint32_t unit)
{
    for (; end - at >= PAIR_BYTES; at += PAIR_BYTES) {
        uint64_t from, length;
        memcpy(&from, at, sizeof from);
        memcpy(&length, at + ADDRESS_BYTES, sizeof length);
        if (length && (from + length < from || !nesting_add(ranges, from, from + length, unit)))
            return false;
    }
    return true;
}

/* Read a section .debug_aranges: the values of the ranges are offsets of units. Returns false if it is damaged, has a form
 * that is not read here, or there is no memory. */
static bool unit_ranges_read(struct nesting *ranges, const uint8_t *section, size_t size)
{
    size_t at = 0;
    while (at < size) {
        if (size - at < HEADER_BYTES)
            return false;
        const struct header h = header_at(section + at);
        /* A length of 0xffffffff announces the form with 64 bits. */
        if (h.length < HEADER_BYTES - 4 || h.length > size - at - 4 || h.version != 2 ||
            h.address_bytes != ADDRESS_BYTES || h.segment_bytes != 0)
            return false;
        const size_t end = at + 4 + h.length;
        const size_t pairs = at + (HEADER_BYTES + PAIR_BYTES - 1) / PAIR_BYTES * PAIR_BYTES;
        if (pairs < end && !add_pairs(ranges, section + pairs, section + end, h.unit))
            return false;
        at = end;
    }
    nesting_sort(ranges);
    return true;
}

/* The offset of the only unit that has an address. NESTING_NONE: there is none, or more than one. */
static uint32_t unit_ranges_find(const struct nesting *ranges, uint64_t address)
{
    uint32_t at = NESTING_NONE, other;
    const uint32_t unit = nesting_next(ranges, address, &at);
    if (unit == NESTING_NONE)
        return NESTING_NONE;
    while ((other = nesting_next(ranges, address, &at)) != NESTING_NONE)
        if (other != unit)
            return NESTING_NONE;
    return unit;
}

/* -- abbreviations -- */

/* Read a number of LEB128 that has several bytes. Returns false at the end of the section. */
static bool long_number_take(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    unsigned shift = 0;
    *number = 0;
    while (*at < end) {
        const uint8_t byte = *(*at)++;
        if (shift < 64)
            *number |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Read any number of LEB128. Nearly all have one byte. */
static inline bool number_take(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    if (*at == end || **at & 0x80)
        return long_number_take(at, end, number);
    *number = *(*at)++;
    return true;
}

static bool leads_out(uint64_t form)
{
    return form == DW_FORM_ref_addr || form == DW_FORM_ref_sig8 || form == DW_FORM_GNU_ref_alt ||
           form == DW_FORM_ref_sup4 || form == DW_FORM_ref_sup8 || form == DW_FORM_indirect;
}

/* Read the attributes of an abbreviation. Returns false if one can refer to another unit. */
static bool pass_attributes(const uint8_t **at, const uint8_t *end)
{
    uint64_t name, form, constant;
    for (;;) {
        if (!number_take(at, end, &name) || !number_take(at, end, &form))
            return false;
        if (name == 0 && form == 0)
            return true;
        if (leads_out(form) || (form == DW_FORM_implicit_const && !number_take(at, end, &constant)))
            return false;
    }
}

/* Can entries of a unit refer to entries of other units? To be read from a section .debug_abbrev. True also if it is
 * damaged. */
static bool unit_ranges_abbrevs_refer(const uint8_t *section, size_t size)
{
    const uint8_t *at = section, *const end = section + size;
    uint64_t code, tag;
    while (at < end) {
        if (!number_take(&at, end, &code))
            return true;
        if (code == 0) /* the end of a unit's table */
            continue;
        if (!number_take(&at, end, &tag) || at == end)
            return true;
        at++; /* whether it has children */
        if (!pass_attributes(&at, end))
            return true;
    }
    return false;
}

/* -- look-up -- */

/* A compilation unit that contains code. */
struct unit {
    Dwarf_Off offset; /* of the unit's first entry */
    bool read;        /* the inlined functions were read */
    struct inlined *inlined;
};

/* An object of the program, with its debug information once it was looked up. */
struct debuginfo_object {
    struct debuginfo_object *next;
    char *path;
    struct stat status; /* of the file that was opened */
    /* The file, open; -1: open it by its path. */
    int fd;
    /* This file is meant, whatever the path leads to by now. */
    bool fixed;
    bool looked_into;
    Dwfl *dwfl; /* NULL: the object has no lines */
    Dwarf *dwarf;
    const char *problem; /* why lines are missing; NULL = none are */
    const char *lacks;   /* the problem of each look-up; NULL = none */
    char *missing;       /* a file with a part of the debug information that is not there; NULL = none */
    unsigned more;       /* the number of other such files */
    uint64_t shift;      /* debug information's address - file's address */
    struct unit *units;
    size_t count, capacity;
    struct nesting code; /* addresses of the debug information; values are indexes of units */
    /* Sections decompressed as far as units were looked up; NULL: all of them is there, and `units` has all units. */
    struct inflating *parts[PARTS];
    struct nesting ranges; /* with parts: addresses; values are offsets of units */
    bool as_a_whole;       /* do not decompress by parts */
    /* For names of functions: the file once more, as it is closed if it has no lines. */
    bool symbols_looked_into;
    Dwfl *symbols;
    struct functions *functions; /* NULL: there are no symbols */
    uint64_t symbols_bias;       /* address of a symbol - file's address */
};

struct debuginfo {
    struct debuginfo_object *objects;
    /* The result of the last look-up. */
    struct debuginfo_frame *frames;
    size_t count, capacity;
    char *function; /* the last name that was returned */
};

/* Does the folder `front` + `folder` + `back` contain a readable file of this name? */
static bool is_there(const char *front, const char *folder, const char *back, const char *name)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s%s/%s", front, folder, back, name);
    return n > 0 && (size_t)n < sizeof path && access(path, R_OK) == 0;
}

/* Open the debug file for the build id of this object. Returns -1 if there is none. path: room for PATH_MAX bytes. */
static int open_known_build(Dwfl_Module *module, char *path)
{
    const unsigned char *id;
    uint8_t its_own[BUILD_ID_MOST];
    GElf_Addr at;
    const int n = dwfl_module_build_id(module, &id, &at);
    if (n < 2 || n > 64)
        return -1;
    char *end = path + sprintf(path, "/usr/lib/debug/.build-id/%02x/", id[0]);
    for (int i = 1; i < n; i++)
        end += sprintf(end, "%02x", id[i]);
    strcpy(end, ".debug");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (build_id_of(fd, its_own) == (size_t)n && memcmp(its_own, id, (size_t)n) == 0))
        return fd;
    close(fd);
    return -1;
}

/* Is there a debug file for the build id of this object? */
static bool is_known_build(Dwfl_Module *module)
{
    char path[PATH_MAX];
    const int fd = open_known_build(module, path);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
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

/* Find the file with the symbols of a module. If libdwfl finds no debug file itself it calls debuginfod's client. For that
 * it loads libraries for the network, which takes 30 ms for each object without debug information. So libdwfl is called
 * only if a debug file exists. */
static int find_symbols(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, const char *file,
                        const char *link, GElf_Word crc, char **found)
{
    if (!is_known_build(module) && !is_known_link(file, link))
        return -1;
    return dwfl_standard_find_debuginfo(module, data, name, base, file, link, crc, found);
}

static void free_parts(struct debuginfo_object *o)
{
    for (int i = 0; i < PARTS; i++) {
        inflating_free(o->parts[i]);
        o->parts[i] = NULL;
    }
}

/* A file, or instead of it a copy whose debug information libelf can read. */
static int without_compression(struct debuginfo_object *o, int fd)
{
    struct inflating *parts[PARTS] = {NULL};
    const int copy = uncompressed_copy(fd, o->as_a_whole ? NULL : parts);
    if (copy < 0)
        return fd;
    close(fd);
    free_parts(o);
    memcpy(o->parts, parts, sizeof parts);
    return copy;
}

/* The same for a file with the debug information of a module. One that is found by its build id is opened here, because
 * libdwfl would keep what it has read of the file to compare the build id. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **found)
{
    char path[PATH_MAX];
    const int fd = open_known_build(module, path);
    if (fd < 0)
        return without_compression(*data, find_symbols(module, data, name, base, file, link, crc, found));
    *found = realpath(path, NULL);
    return without_compression(*data, fd);
}

static const Dwfl_Callbacks s_callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

static const Dwfl_Callbacks s_callbacks_for_symbols = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_symbols,
    .section_address = dwfl_offline_section_address,
};

struct debuginfo *debuginfo_new(void)
{
    unsetenv("DEBUGINFOD_URLS"); /* else libdwfl would ask these servers */
    return calloc(1, sizeof(struct debuginfo));
}

/* Return false when out of memory. */
static bool add_unit(struct debuginfo_object *o, Dwarf_Die *unit)
{
    if (o->count == o->capacity) {
        size_t capacity = o->capacity * 2 + 64;
        struct unit *units = realloc(o->units, capacity * sizeof *units);
        if (!units)
            return false;
        o->units = units;
        o->capacity = capacity;
    }
    const uint32_t number = (uint32_t)o->count;
    Dwarf_Addr base, from, to;
    ptrdiff_t at = 0;
    bool ok = true;
    o->units[o->count++] = (struct unit){.offset = dwarf_dieoffset(unit)};
    while (ok && (at = dwarf_ranges(unit, at, &base, &from, &to)) > 0)
        ok = from >= to || nesting_add(&o->code, from, to, number);
    return ok;
}

/* Does this unit contain code? If debug information is split, a skeleton unit with the lines remains in the
 * object. */
static bool has_code(Dwarf_Die *unit)
{
    int tag = dwarf_tag(unit);
    return tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit;
}

/* Collect the address ranges of all units. Not from .debug_aranges, as not every object has that section. */
static void add_units(struct debuginfo_object *o)
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
    nesting_sort(&o->code);
}

static Elf_Scn *section_named(Elf *elf, const char *wanted)
{
    size_t names;
    Elf_Scn *section = NULL;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return NULL;
    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name && strcmp(name, wanted) == 0)
            return section;
    }
    return NULL;
}

/* Does the file have sections of debug information, compressed or not? */
static bool has_sections(Elf *elf)
{
    return section_named(elf, ".debug_info") || section_named(elf, ".zdebug_info");
}

/* A file with a part of the debug information was not read. Note it if it is missing; libdw also does not read every
 * form of such files. folder: where it should be, if its name is relative. */
static void note_missing(struct debuginfo_object *o, const char *folder, const char *name)
{
    char path[PATH_MAX];
    const bool relative = folder && name[0] != '/';
    snprintf(path, sizeof path, "%s%s%s", relative ? folder : "", relative ? "/" : "", name);
    if (relative && access(path, R_OK) == 0)
        return;
    if (o->missing)
        o->more++;
    else
        o->missing = strdup(path);
}

/* dwz moves what several objects have in common to another file. */
static void find_common(struct debuginfo_object *o)
{
    const char *name;
    const void *id;
    if (dwelf_dwarf_gnu_debugaltlink(o->dwarf, &name, &id) > 0 && !dwarf_getalt(o->dwarf))
        note_missing(o, NULL, name);
}

/* Open the object's file. Returns a descriptor, or -1. */
static int open_file(const struct debuginfo_object *o)
{
    if (o->fd >= 0)
        return fcntl(o->fd, F_DUPFD_CLOEXEC, 0);
    return o->fixed ? -1 : open(o->path, O_RDONLY | O_CLOEXEC);
}

/* Begin to read a file, which libdwfl owns from then on; fd: -1 = there is none. */
static Dwfl_Module *report_file(Dwfl *dwfl, const struct debuginfo_object *o, int fd)
{
    Dwfl_Module *module = fd >= 0 ? dwfl_report_offline(dwfl, o->path, o->path, fd) : NULL;
    if (fd >= 0 && !module)
        close(fd);
    dwfl_report_end(dwfl, NULL, NULL);
    return module;
}

/* Open the debug information and find how its addresses differ from the file's. Returns NULL if there is
 * none. */
static Dwarf *open_dwarf(struct debuginfo_object *o)
{
    GElf_Addr elf_bias = 0;
    Dwarf_Addr dwarf_bias = 0;
    Elf *elf;
    void **data;
    Dwfl_Module *module = report_file(o->dwfl, o, without_compression(o, open_file(o)));
    if (module && dwfl_module_info(module, &data, NULL, NULL, NULL, NULL, NULL, NULL))
        *data = o;
    if (!module || !(elf = dwfl_module_getelf(module, &elf_bias)))
        return NULL;
    Dwarf *dwarf = dwfl_module_getdwarf(module, &dwarf_bias);
    if (!dwarf && has_sections(elf))
        o->problem = dwfl_errmsg(-1);
    o->shift = elf_bias - dwarf_bias;
    return dwarf;
}

static void close_lines(struct debuginfo_object *o)
{
    for (size_t i = 0; i < o->count; i++)
        inlined_free(o->units[i].inlined);
    nesting_free(&o->code);
    nesting_free(&o->ranges);
    free_parts(o);
    if (o->dwfl)
        dwfl_end(o->dwfl);
    o->dwfl = NULL;
    o->dwarf = NULL;
    o->count = 0;
    o->looked_into = false;
}

static void close_symbols(struct debuginfo_object *o)
{
    functions_free(o->functions);
    if (o->symbols)
        dwfl_end(o->symbols);
    o->functions = NULL;
    o->symbols = NULL;
    o->symbols_looked_into = false;
}

/* The contents of a section of the debug information, without bytes if there is none. */
static Elf_Data section_of(const struct debuginfo_object *o, const char *name)
{
    Elf_Scn *section = section_named(dwarf_getelf(o->dwarf), name);
    const Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
    return data ? *data : (Elf_Data){0};
}

/* The bytes of a unit's header at most, and of the header of a table of lines at least. */
enum { UNIT_HEADER = 24, LINES_HEADER = 15 };

/* Does libdw see what is decompressed of a section? Its first bytes are decompressed first. */
static bool is_seen(const struct debuginfo_object *o, enum uncompressed_part part, const char *name,
                    uint64_t first)
{
    const Elf_Data data = section_of(o, name);
    return !o->parts[part] || (inflating_to(o->parts[part], first) && data.d_buf &&
                               inflating_is(o->parts[part], data.d_buf, data.d_size));
}

/* Prepare to read units one by one. Returns false if units may need others, or it is not known where they are. */
static bool begin_parts(struct debuginfo_object *o)
{
    const Elf_Data abbrevs = section_of(o, ".debug_abbrev"), ranges = section_of(o, ".debug_aranges");
    return is_seen(o, PART_INFO, ".debug_info", UNIT_HEADER) &&
           is_seen(o, PART_LINES, ".debug_line", LINES_HEADER) && abbrevs.d_buf &&
           !unit_ranges_abbrevs_refer(abbrevs.d_buf, abbrevs.d_size) && ranges.d_buf &&
           unit_ranges_read(&o->ranges, ranges.d_buf, ranges.d_size);
}

static void open_lines(struct debuginfo_object *o)
{
    o->dwfl = dwfl_begin(&s_callbacks);
    o->dwarf = o->dwfl ? open_dwarf(o) : NULL;
}

/* Read an object's debug information. What was opened is closed again if there are no lines. */
static void look_into(struct debuginfo_object *o)
{
    open_lines(o);
    if (o->parts[PART_INFO] && !(o->dwarf && begin_parts(o))) {
        close_lines(o);
        o->problem = NULL;
        o->as_a_whole = true;
        open_lines(o);
    }
    if (o->dwarf && !o->parts[PART_INFO])
        add_units(o);
    if (o->dwarf)
        find_common(o);
    else
        close_lines(o);
    o->looked_into = true;
}

/* Close what was read by parts, and read all. */
static void read_whole(struct debuginfo_object *o)
{
    close_lines(o);
    o->as_a_whole = true;
    look_into(o);
}

/* Decompress a unit's table of lines. */
static bool take_lines(struct debuginfo_object *o, Dwarf_Die *unit)
{
    struct inflating *lines = o->parts[PART_LINES];
    Dwarf_Attribute attribute;
    Dwarf_Word at;
    uint32_t length;
    if (!lines || !dwarf_attr(unit, DW_AT_stmt_list, &attribute))
        return true;
    /* A length of 0xffffffff announces the form with 64 bits. It is too large here, so that all is read. */
    return dwarf_formudata(&attribute, &at) == 0 && at <= UINT32_MAX &&
           inflating_read(lines, at, &length, sizeof length) &&
           inflating_to(lines, at + sizeof length + length);
}

/* Decompress a unit, and find its first entry. header: where it begins. */
static bool take_unit(struct debuginfo_object *o, Dwarf_Off header, Dwarf_Die *unit)
{
    struct inflating *info = o->parts[PART_INFO];
    Dwarf_Off next;
    size_t header_size;
    return inflating_to(info, header + UNIT_HEADER) &&
           dwarf_next_unit(o->dwarf, header, &next, &header_size, NULL, NULL, NULL, NULL, NULL, NULL) == 0 &&
           inflating_to(info, next) && dwarf_offdie(o->dwarf, header + header_size, unit) && has_code(unit) &&
           take_lines(o, unit);
}

/* Read the unit of an address, if it was not read before. Returns false if all units must be read to find it. */
static bool read_unit(struct debuginfo_object *o, uint64_t address)
{
    Dwarf_Die unit;
    const uint32_t header = unit_ranges_find(&o->ranges, address);
    if (header == NESTING_NONE || !take_unit(o, header, &unit))
        return false;
    const Dwarf_Off offset = dwarf_dieoffset(&unit);
    size_t i = 0;
    while (i < o->count && o->units[i].offset != offset)
        i++;
    if (i == o->count && !add_unit(o, &unit))
        return false;
    nesting_sort(&o->code);
    return nesting_find(&o->code, address) == i;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Close the object's file if its path leads to another file by now: programs may build a library, load it and
 * build it again. If the file was removed, what was read of it stays valid. */
static void keep_up(struct debuginfo_object *o)
{
    struct stat now;
    if (o->fixed || stat(o->path, &now) != 0 || is_same_file(&now, &o->status))
        return;
    close_lines(o);
    close_symbols(o);
    o->status = now;
}

static void free_object(struct debuginfo_object *o)
{
    close_lines(o);
    close_symbols(o);
    if (o->fd >= 0)
        close(o->fd);
    free(o->units);
    free(o->missing);
    free(o->path);
    free(o);
}

/* Add an object. Returns NULL when out of memory. */
static struct debuginfo_object *add_object(struct debuginfo *d, const char *path, int fd)
{
    struct debuginfo_object *o = calloc(1, sizeof *o);
    if (!o || !(o->path = strdup(path))) {
        free(o);
        return NULL;
    }
    o->fd = fd;
    o->next = d->objects;
    d->objects = o;
    return o;
}

struct debuginfo_object *debuginfo_at(struct debuginfo *d, const char *path)
{
    struct debuginfo_object *o = d->objects;
    while (o && (o->fixed || strcmp(o->path, path) != 0))
        o = o->next;
    return o ? o : add_object(d, path, -1);
}

struct debuginfo_object *debuginfo_add(struct debuginfo *d, const char *path, int fd)
{
    struct stat now = {0};
    struct debuginfo_object *o = d->objects;
    const bool is_open = fd >= 0 && fstat(fd, &now) == 0;
    while (o && !(o->fixed && strcmp(o->path, path) == 0 && (o->fd >= 0) == is_open &&
                  is_same_file(&o->status, &now)))
        o = o->next;
    if (fd >= 0 && (o || !is_open))
        close(fd);
    if (!o && (o = add_object(d, path, is_open ? fd : -1))) {
        o->status = now;
        o->fixed = true;
    }
    return o;
}

void debuginfo_lacks(struct debuginfo_object *o, const char *why)
{
    o->lacks = why;
}

void debuginfo_free(struct debuginfo *d)
{
    while (d->objects) {
        struct debuginfo_object *o = d->objects;
        d->objects = o->next;
        free_object(o);
    }
    free(d->frames);
    free(d->function);
    free(d);
}

/* The line of an address of the debug information. */
static void find_line(struct debuginfo_object *o, Dwarf_Die *unit, uint64_t address,
                      struct debuginfo_frame *frame)
{
    Dwarf_Lines *lines;
    size_t count;
    int number;
    if (dwarf_getsrclines(unit, &lines, &count) != 0) {
        o->problem = dwarf_errmsg(-1);
        return;
    }
    Dwarf_Line *line = dwarf_getsrc_die(unit, address);
    if (!line || dwarf_lineno(line, &number) != 0 || number <= 0)
        return;
    frame->file = dwarf_linesrc(line, NULL, NULL);
    frame->line = frame->file ? (uint32_t)number : 0;
}

/* A unit of which only the skeleton is in the object. */
static void note_split(struct debuginfo_object *o, const Dwarf_Die *die)
{
    Dwarf_Die unit = *die;
    Dwarf_Attribute name, folder;
    if (dwarf_attr(&unit, DW_AT_dwo_name, &name) || dwarf_attr(&unit, DW_AT_GNU_dwo_name, &name))
        note_missing(o, dwarf_formstring(dwarf_attr(&unit, DW_AT_comp_dir, &folder)),
                     dwarf_formstring(&name));
}

/* The inlined functions of a unit, NULL if they are not known. If debug information is split, they are in another
 * file. */
static struct inlined *inlined_of(struct debuginfo_object *o, struct unit *unit, const Dwarf_Die *die)
{
    Dwarf_Die split;
    if (unit->read)
        return unit->inlined;
    unit->read = true;
    if (dwarf_cu_info(die->cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) != 0)
        return NULL;
    if (!split.cu)
        note_split(o, die);
    unit->inlined = inlined_new(split.cu ? &split : die, die, &o->problem);
    return unit->inlined;
}

/* Add a frame to the result. When out of memory, outer frames are left out. */
static void add_frame(struct debuginfo *d, struct debuginfo_frame frame)
{
    if (d->count == d->capacity) {
        size_t capacity = d->capacity * 2 + 16;
        struct debuginfo_frame *frames = realloc(d->frames, capacity * sizeof *frames);
        if (!frames)
            return;
        d->frames = frames;
        d->capacity = capacity;
    }
    d->frames[d->count++] = frame;
}

/* innermost: has the line of the address. Each frame around it has the line of the call that was inlined. */
static void add_frames(struct debuginfo *d, struct inlined *s, uint64_t address,
                       struct debuginfo_frame innermost)
{
    struct debuginfo_frame frame = innermost;
    uint32_t at = s ? inlined_at(s, address) : INLINED_NONE;
    for (; at != INLINED_NONE; at = inlined_around(s, at)) {
        struct inlined_call call = inlined_call(s, at);
        frame.function = call.function;
        add_frame(d, frame);
        frame = (struct debuginfo_frame){.file = call.file, .line = call.file ? call.line : 0};
    }
    add_frame(d, frame);
}

size_t debuginfo_find(struct debuginfo *d, struct debuginfo_object *o, uint64_t address,
                      const struct debuginfo_frame **frames)
{
    d->count = 0;
    keep_up(o);
    if (o->lacks)
        o->problem = o->lacks;
    if (!o->looked_into)
        look_into(o);
    if (o->parts[PART_INFO] && !read_unit(o, address + o->shift))
        read_whole(o);
    const uint32_t number = nesting_find(&o->code, address + o->shift);
    struct debuginfo_frame innermost = {0};
    Dwarf_Die unit;
    if (number == NESTING_NONE || !dwarf_offdie(o->dwarf, o->units[number].offset, &unit))
        return 0;
    find_line(o, &unit, address + o->shift, &innermost);
    add_frames(d, inlined_of(o, &o->units[number], &unit), address + o->shift, innermost);
    *frames = d->frames;
    return d->count;
}

/* Open the file for its symbols. */
static void look_into_symbols(struct debuginfo_object *o)
{
    GElf_Addr bias = 0;
    o->symbols_looked_into = true;
    o->symbols = dwfl_begin(&s_callbacks_for_symbols);
    Dwfl_Module *module = o->symbols ? report_file(o->symbols, o, open_file(o)) : NULL;
    if (module && dwfl_module_getelf(module, &bias)) {
        o->functions = functions_new(module);
        o->symbols_bias = bias;
    }
}

const char *debuginfo_function(struct debuginfo *d, struct debuginfo_object *o, uint64_t address)
{
    keep_up(o);
    if (!o->symbols_looked_into)
        look_into_symbols(o);
    const char *name = o->functions ? functions_find(o->functions, address + o->symbols_bias) : NULL;
    if (!name)
        return NULL;
    free(d->function);
    d->function = cplus_demangle(name, DMGL_ANSI | DMGL_PARAMS);
    if (!d->function)
        d->function = strdup(name);
    return d->function;
}

static void report_missing(const struct debuginfo_object *o,
                           void (*report)(void *ctx, const char *object, const char *why), void *ctx)
{
    char text[PATH_MAX + 64];
    if (o->more)
        snprintf(text, sizeof text, "%s and %u more of its files are missing", o->missing, o->more);
    else
        snprintf(text, sizeof text, "its file %s is missing", o->missing);
    report(ctx, o->path, text);
}

void debuginfo_problems(const struct debuginfo *d,
                        void (*report)(void *ctx, const char *object, const char *why), void *ctx)
{
    for (const struct debuginfo_object *o = d->objects; o; o = o->next)
        if (o->problem)
            report(ctx, o->path, o->problem);
        else if (o->missing)
            report_missing(o, report, ctx);
}
