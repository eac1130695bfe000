/* names.c - code addresses of the program: the object file of each, and when files are mapped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector finds functions and lines in the object's file, which it opens when the object is reported: when the
 * recording begins, or when the dynamic linker has mapped it (objects.c). Objects of other link namespaces are reported
 * with the first of their code addresses. These are found by _dl_find_object, which takes no lock, so it can be called
 * from within the dynamic linker.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/objects.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

enum { SLOTS = 1 << 16 };

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
    const struct native_object object = {.start = (uint64_t)o.dlfo_map_start,
                                         .size = (uint64_t)o.dlfo_map_end - (uint64_t)o.dlfo_map_start,
                                         .bias = o.dlfo_link_map->l_addr,
                                         .name = o.dlfo_link_map->l_name};
    native_object_report(&object);
    NATIVE_PUT(frame, .ip = ip, .object = native_text(native_object_path(&object)),
               .in_file = ip - o.dlfo_link_map->l_addr);
}

void native_names_restart(void)
{
    memset(s_named, 0, TABLE_BYTES(s_named));
}
