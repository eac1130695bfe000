/* names.c - code addresses of the program: the object file of each, and when files are mapped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector finds functions and lines in the object's file. Objects are found by _dl_find_object, which takes no
 * lock, so it can be called from within the dynamic loader.
 */
#define _GNU_SOURCE
#include "ljtrace/native/native.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { SLOTS = 1 << 16, MOST_OBJECTS = 1024 };

/* A direct-mapped cache of addresses that were named. */
TABLE(uint64_t, s_named, SLOTS);

/* The objects that were reported and are mapped. */
struct object {
    uint64_t start, size, bias;
};
TABLE(struct object, s_objects, MOST_OBJECTS);
static uint32_t s_count;

static const char *path_of(const struct dl_find_object *o)
{
    LASTING_TABLE(char, program, PATH_MAX);
    if (o->dlfo_link_map->l_name[0])
        return o->dlfo_link_map->l_name;
    if (!program[0] && readlink("/proc/self/exe", program, PATH_MAX - 1) < 0)
        program[0] = 0;
    return program;
}

static bool is_vdso(const struct dl_find_object *o)
{
    return (uint64_t)o->dlfo_map_start == getauxval(AT_SYSINFO_EHDR);
}

static void report(const struct dl_find_object *o, struct raw_text path)
{
    const uint64_t start = (uint64_t)o->dlfo_map_start, size = (uint64_t)o->dlfo_map_end - start;
    for (uint32_t i = 0; i < s_count; i++)
        if (s_objects[i].start == start && s_objects[i].size == size)
            return;
    if (s_count == MOST_OBJECTS)
        return; /* frames still have the object's name */
    s_objects[s_count++] = (struct object){start, size, o->dlfo_link_map->l_addr};
    NATIVE_PUT(loaded, .object = path, .path = path);
    NATIVE_PUT(module, .instructions = native_now(), .start = start, .size = size,
               .bias = o->dlfo_link_map->l_addr, .object = path, .path = path);
}

static void name_cut(void)
{
    char name[40];
    snprintf(name, sizeof name, RING_CUT_NAME, (int)native_options.depth);
    NATIVE_PUT(luaframe, .key = RAW_CUT, .kind = MT_FRAME_CUT, .function = native_text(name));
}

void native_name(uint64_t ip)
{
    uint64_t *slot = &s_named[(ip * 0x9e3779b97f4a7c15ULL) >> 48];
    struct dl_find_object o;
    if (*slot == ip)
        return;
    *slot = ip;
    if (ip == RAW_CUT) {
        name_cut();
        return;
    }
    if (_dl_find_object((void *)ip, &o) != 0 || is_vdso(&o)) {
        NATIVE_PUT(frame, .ip = ip);
        return;
    }
    const struct raw_text path = native_text(path_of(&o));
    report(&o, path);
    NATIVE_PUT(frame, .ip = ip, .object = path, .in_file = ip - o.dlfo_link_map->l_addr);
}

void native_names_restart(void)
{
    memset(s_named, 0, TABLE_BYTES(s_named));
    s_count = 0;
}

/* Write which of the reported objects are no longer mapped, and name all addresses again. */
void native_names_forget(void)
{
    memset(s_named, 0, TABLE_BYTES(s_named));
    for (uint32_t i = s_count; i-- > 0;) {
        struct dl_find_object o;
        const struct object *known = &s_objects[i];
        if (_dl_find_object((void *)known->start, &o) == 0 && (uint64_t)o.dlfo_map_start == known->start &&
            o.dlfo_link_map->l_addr == known->bias)
            continue;
        NATIVE_PUT(unmapped, .instructions = native_now(), .start = known->start);
        s_objects[i] = s_objects[--s_count];
    }
}
