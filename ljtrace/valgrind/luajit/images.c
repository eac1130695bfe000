/* images.c - the table of the LuaJITs that are loaded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Why does the preload not use dlopen and dlsym? They only know exported symbols, and a program that LuaJIT
 * is linked into need not export them. They leave an error that the program's own dlerror would report. And
 * they find nothing in an object whose file was replaced, or that was opened by a relative path.
 */
#include "ljtrace/luajit/core/states.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"

enum { MAX_RANGES = 16 };

static struct {
    Addr from, to; /* the code; 0, 0 = free */
} s_image[LUA_MAX_IMAGES];

static struct {
    Addr from, to;
} s_code[MAX_RANGES];
static UInt s_ranges;

UInt lt_image_of(Addr f)
{
    for (UInt i = 0; i < LUA_MAX_IMAGES; i++)
        if (f >= s_image[i].from && f < s_image[i].to)
            return i + 1;
    return 0;
}

static const DebugInfo *object_of(Addr f)
{
    return VG_(find_DebugInfo)(VG_(current_DiEpoch)(), f);
}

Bool lt_object_code(Addr f, Addr *from, Addr *to)
{
    const DebugInfo *object = object_of(f);
    if (!object)
        return False;
    *from = VG_(DebugInfo_get_text_avma)(object);
    *to = *from + VG_(DebugInfo_get_text_size)(object);
    return True;
}

UInt lt_image_add(Addr f)
{
    UInt i = 0;
    while (i < LUA_MAX_IMAGES && s_image[i].to)
        i++;
    return i < LUA_MAX_IMAGES && lt_object_code(f, &s_image[i].from, &s_image[i].to) ? i + 1 : 0;
}

const HChar *lt_image_file(UInt image)
{
    const Bool known = image && image <= LUA_MAX_IMAGES;
    const DebugInfo *object = known ? object_of(s_image[image - 1].from) : NULL;
    return object ? VG_(DebugInfo_get_filename)(object) : "?";
}

static void note_name(const HChar *name, Addr at, const HChar *const *names, UInt n, Addr *to)
{
    for (UInt i = 0; i < n; i++)
        if (VG_(strcmp)(name, names[i]) == 0)
            to[i] = at;
}

void lt_image_functions(UInt image, const HChar *const *names, UInt n, Addr *to)
{
    const DebugInfo *object = image ? object_of(s_image[image - 1].from) : NULL;
    VG_(memset)(to, 0, n * sizeof *to);
    for (Int i = object ? VG_(DebugInfo_syms_howmany)(object) : 0; i-- > 0;) {
        SymAVMAs at;
        const HChar *name, **others;
        Bool is_text;
        VG_(DebugInfo_syms_getidx)(object, i, &at, NULL, &name, &others, &is_text, NULL, NULL);
        if (!is_text)
            continue;
        note_name(name, at.main, names, n, to);
        for (; others && *others; others++)
            note_name(*others, at.main, names, n, to);
    }
}

void lt_image_code(Addr from, Addr to)
{
    if (lt_options.trace_mem)
        lt_vex_be_precise();
    if (s_ranges < MAX_RANGES && !host_is_lua_code(from)) {
        s_code[s_ranges].from = from;
        s_code[s_ranges++].to = to;
    }
}

/* Index of the range that contains an address; s_ranges = none. */
static UInt range_of(Addr ip)
{
    UInt i = 0;
    while (i < s_ranges && (ip < s_code[i].from || ip >= s_code[i].to))
        i++;
    return i;
}

bool host_is_lua_code(Addr ip)
{
    return range_of(ip) < s_ranges;
}

/* It saves time only where the kernel has to be asked which memory is readable. */
bool host_is_other_code(Addr ip)
{
    return False;
}

static void forget_code(Addr ip)
{
    if (host_is_lua_code(ip))
        s_code[range_of(ip)] = s_code[--s_ranges];
}

void lt_image_unmapped(Addr from, SizeT size)
{
    for (UInt i = 0; i < LUA_MAX_IMAGES; i++)
        if (from < s_image[i].to && from + size > s_image[i].from) {
            forget_code(s_image[i].from);
            s_image[i].from = s_image[i].to = 0;
            lt_vm_image_gone(i + 1);
        }
}
