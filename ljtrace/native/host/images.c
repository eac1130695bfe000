/* images.c - the LuaJITs in the program (see ljtrace/valgrind/luajit/images.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Functions are found in the tables of exported symbols that the dynamic linker uses. It knows the object of an address
 * without a lock (_dl_find_object).
 */
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/luajit/core/states.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/native/host/images.h"
#include "ljtrace/native/host/symbols.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

static struct {
    Addr from, to; /* 0, 0 = free */
    const struct link_map *object;
} s_image[LUA_MAX_IMAGES];

static const struct link_map *object_of(Addr f, Addr *from, Addr *to)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)f, &found) != 0)
        return NULL;
    *from = (Addr)found.dlfo_map_start;
    *to = (Addr)found.dlfo_map_end;
    return found.dlfo_link_map;
}

Bool lt_object_code(Addr f, Addr *from, Addr *to)
{
    return object_of(f, from, to) != NULL;
}

UInt lt_image_of(Addr f)
{
    for (UInt i = 0; i < LUA_MAX_IMAGES; i++)
        if (f >= s_image[i].from && f < s_image[i].to)
            return i + 1;
    return 0;
}

UInt lt_image_add(Addr f)
{
    UInt i = 0;
    while (i < LUA_MAX_IMAGES && s_image[i].to)
        i++;
    if (i == LUA_MAX_IMAGES)
        return 0;
    s_image[i].object = object_of(f, &s_image[i].from, &s_image[i].to);
    return s_image[i].object ? i + 1 : 0;
}

const HChar *lt_image_file(UInt image)
{
    const struct link_map *object = image ? s_image[image - 1].object : NULL;
    return !object ? "?" : object->l_name[0] ? object->l_name : "the program";
}

void lt_image_functions(UInt image, const HChar *const *names, UInt n, Addr *to)
{
    const struct link_map *object = image ? s_image[image - 1].object : NULL;
    for (UInt i = 0; i < n; i++)
        to[i] = object ? (Addr)host_symbol(object, names[i]) : 0;
}

/* LuaJIT's allocator is in its own object, so the code of an image is Lua's code. */
void lt_image_code(Addr from, Addr to)
{
    (void)from, (void)to;
}

Bool lt_is_lua_code(Addr ip)
{
    return lt_image_of(ip) != 0;
}

static Bool is_loaded(UInt i)
{
    Addr from = 0, to;
    return object_of(s_image[i].from, &from, &to) == s_image[i].object && from == s_image[i].from;
}

UInt host_images_unloaded(void)
{
    UInt gone = 0;
    for (UInt i = 0; i < LUA_MAX_IMAGES; i++)
        if (s_image[i].to && !is_loaded(i)) {
            lt_lua_unwatch(s_image[i].from, s_image[i].to);
            s_image[i].from = s_image[i].to = 0;
            lt_vm_image_gone(i + 1);
            gone |= 1U << i;
        }
    return gone;
}
