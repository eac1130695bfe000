/* objects.c - see objects.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The dynamic linker is asked for its objects before the ring is locked: it has locks of its own, and a thread that holds
 * one of these may wait for the ring.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/objects.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/system_files.h"
#include "ljtrace/protocol/table.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { MOST_OBJECTS = 1024, NEW_AT_ONCE = 64, PAGE = 4096 };

/* The objects that were reported and are mapped. */
struct known {
    uint64_t start, size, bias;
};
TABLE(struct known, s_objects, MOST_OBJECTS);
static uint32_t s_count;

const char *native_object_path(const struct native_object *o)
{
    LASTING_TABLE(char, program, PATH_MAX);
    if (o->name[0])
        return o->name;
    if (!program[0] && readlink("/proc/self/exe", program, PATH_MAX - 1) < 0)
        program[0] = 0;
    return program;
}

/* Of an object with gaps between its segments, _dl_find_object knows the segments only. */
static bool is_known(const struct native_object *o)
{
    for (uint32_t i = 0; i < s_count; i++)
        if (o->start - s_objects[i].start < s_objects[i].size && s_objects[i].bias == o->bias)
            return true;
    return false;
}

/* The first page of an object, if it begins with the header of its file. */
static struct raw_text image_of(const struct native_object *o)
{
    const char *at = (const char *)o->start;
    const bool has_header = o->size >= PAGE && memcmp(at, ELFMAG, SELFMAG) == 0;
    return (struct raw_text){at, has_header ? PAGE : 0};
}

void native_object_report(const struct native_object *o)
{
    if (is_known(o) || s_count == MOST_OBJECTS)
        return; /* frames still have the object's name */
    s_objects[s_count++] = (struct known){o->start, o->size, o->bias};
    NATIVE_PUT(module, .instructions = native_now(), .start = o->start, .size = o->size, .bias = o->bias,
               .object = native_text(native_object_path(o)), .image = image_of(o));
}

/* -- all objects -- */

/* Objects that are not known. */
struct found {
    struct native_object objects[NEW_AT_ONCE];
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
        from = at < from ? at & ~(uint64_t)(PAGE - 1) : from;
        to = at + segment->p_memsz > to ? at + segment->p_memsz : to;
    }
    const struct native_object o = {from, to - from, info->dlpi_addr, info->dlpi_name};
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
        native_object_report(&found->objects[i]);
        are_systems &= system_has_file(native_object_path(&found->objects[i])) != 0;
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
