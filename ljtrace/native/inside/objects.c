/* objects.c - the object files of the program, and which of them has the code at an address.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector finds functions and lines in the object's file, which it opens when the object is reported: when the
 * recording begins, or when the dynamic linker has mapped it. Objects of other link namespaces are reported with the first
 * of their code addresses. These are found by _dl_find_object, which takes no lock, so it can be called from within the
 * dynamic linker.
 *
 * The dynamic linker is asked for its objects before the ring is locked: it has locks of its own, and a thread that holds
 * one of these may wait for the ring.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/objects.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/system_files.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { MOST_OBJECTS = 1024, NEW_AT_ONCE = 64, SLOTS = 1 << 16 };

/* An object that is mapped. */
struct object {
    uint64_t start, size, bias; /* bias: address in memory less address in the file */
    const char *name;           /* the dynamic linker's; "" = the program */
};

/* The objects that were reported and are mapped. */
struct known {
    uint64_t start, size, bias;
};
TABLE(struct known, s_objects, MOST_OBJECTS);
static uint32_t s_count;

/* The path of its file, as far as it is known. */
static const char *path_of(const struct object *o)
{
    LASTING_TABLE(char, program, PATH_MAX);
    if (o->name[0])
        return o->name;
    if (!program[0] && readlink("/proc/self/exe", program, PATH_MAX - 1) < 0)
        program[0] = 0;
    return program;
}

/* Of an object with gaps between its segments, _dl_find_object knows the segments only. */
static bool is_known(const struct object *o)
{
    for (uint32_t i = 0; i < s_count; i++)
        if (o->start - s_objects[i].start < s_objects[i].size && s_objects[i].bias == o->bias)
            return true;
    return false;
}

/* The first page of an object, if it begins with the header of its file. */
static struct raw_text image_of(const struct object *o)
{
    const char *at = (const char *)o->start;
    const bool has_header = o->size >= KERNEL_PAGE && memcmp(at, ELFMAG, SELFMAG) == 0;
    return (struct raw_text){at, has_header ? KERNEL_PAGE : 0};
}

/* Report it, unless that was done before. */
static void object_report(const struct object *o)
{
    if (is_known(o) || s_count == MOST_OBJECTS)
        return; /* frames still have the object's name */
    s_objects[s_count++] = (struct known){o->start, o->size, o->bias};
    NATIVE_PUT(module, .instructions = native_now(), .start = o->start, .size = o->size, .bias = o->bias,
               .object = native_text(path_of(o)), .image = image_of(o));
}

/* -- all objects -- */

/* Objects that are not known. */
struct found {
    struct object objects[NEW_AT_ONCE];
    uint32_t count;
};

static int see_object(struct dl_phdr_info *info, size_t size, void *any)
{
    struct found *found = any;
    uint64_t from = UINT64_MAX, to = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uint64_t at = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        from = at < from ? at & ~(uint64_t)(KERNEL_PAGE - 1) : from;
        to = at + segment->p_memsz > to ? at + segment->p_memsz : to;
    }
    const struct object o = {from, to - from, info->dlpi_addr, info->dlpi_name};
    if (to && from != getauxval(AT_SYSINFO_EHDR) && !is_known(&o))
        found->objects[found->count++] = o;
    return found->count == NEW_AT_ONCE;
}

/* Report these objects, and those that are gone. Returns false if the recording has ended. */
static bool report_all(const struct found *found)
{
    bool are_systems = true;
    if (!native_ring_lock())
        return false;
    native_objects_unmapped();
    for (uint32_t i = 0; i < found->count; i++) {
        object_report(&found->objects[i]);
        are_systems &= system_has_file(path_of(&found->objects[i])) != 0;
    }
    if (!are_systems)
        native_ring_drain();
    native_ring_unlock();
    return true;
}

void native_objects_update(void)
{
    struct found found;
    if (native_ring_is_mine())
        return;
    do {
        found.count = 0;
        dl_iterate_phdr(see_object, &found);
    } while (report_all(&found) && found.count == NEW_AT_ONCE && s_count < MOST_OBJECTS);
}

void native_objects_unmapped(void)
{
    for (uint32_t i = s_count; i-- > 0;) {
        struct dl_find_object o;
        const struct known *known = &s_objects[i];
        if (_dl_find_object((void *)known->start, &o) == 0 && (uint64_t)o.dlfo_map_start == known->start &&
            o.dlfo_link_map->l_addr == known->bias)
            continue;
        NATIVE_PUT(unmapped, .instructions = native_now(), .start = known->start);
        s_objects[i] = s_objects[--s_count];
    }
}

void native_objects_restart(void)
{
    s_count = 0;
}

/* -- code addresses -- */

/* A direct-mapped cache of addresses that were named. */
TABLE(uint64_t, s_named, SLOTS);

static bool is_vdso(const struct dl_find_object *o)
{
    return (uint64_t)o->dlfo_map_start == getauxval(AT_SYSINFO_EHDR);
}

static void name_cut(void)
{
    char name[40];
    snprintf(name, sizeof name, RING_CUT_NAME, (int)native_options.depth);
    NATIVE_PUT(luaframe, .key = RAW_CUT, .kind = MT_FRAME_CUT, .function = native_text(name));
    NATIVE_PUT(luaframe, .key = RAW_UNKNOWN_CALLER, .kind = MT_FRAME_CUT,
               .function = native_text(RING_UNKNOWN_CALLER_NAME));
}

void native_name(uint64_t ip)
{
    uint64_t *slot = &s_named[(ip * 0x9e3779b97f4a7c15ULL) >> 48];
    struct dl_find_object o;
    if (*slot == ip)
        return;
    *slot = ip;
    if (ip == RAW_CUT || ip == RAW_UNKNOWN_CALLER) {
        name_cut();
        return;
    }
    if (_dl_find_object((void *)ip, &o) != 0 || is_vdso(&o)) {
        NATIVE_PUT(frame, .ip = ip);
        return;
    }
    const struct object object = {.start = (uint64_t)o.dlfo_map_start,
                                  .size = (uint64_t)o.dlfo_map_end - (uint64_t)o.dlfo_map_start,
                                  .bias = o.dlfo_link_map->l_addr,
                                  .name = o.dlfo_link_map->l_name};
    object_report(&object);
    NATIVE_PUT(frame, .ip = ip, .object = native_text(path_of(&object)),
               .in_file = ip - o.dlfo_link_map->l_addr);
}

void native_names_restart(void)
{
    memset(s_named, 0, TABLE_BYTES(s_named));
}
