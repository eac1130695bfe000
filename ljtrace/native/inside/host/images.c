/* images.c - the LuaJITs in the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Functions are found in the tables of exported symbols that the dynamic linker uses. It knows the object of an address
 * without a lock (_dl_find_object).
 */
#include "ljtrace/native/inside/host/images.h"
#include "ljtrace/luajit/core/states.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/native/inside/host/symbols.h"
#include <dlfcn.h>
#include <link.h>
#include <string.h>

static struct {
    uint64_t from, to; /* 0, 0 = free */
    const struct link_map *object;
} s_image[LUA_MAX_IMAGES];

static const struct link_map *object_of(uint64_t f, uint64_t *from, uint64_t *to)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)f, &found) != 0)
        return NULL;
    *from = (uint64_t)found.dlfo_map_start;
    *to = (uint64_t)found.dlfo_map_end;
    return found.dlfo_link_map;
}

bool host_object_code(uint64_t f, uint64_t *from, uint64_t *to)
{
    return object_of(f, from, to) != NULL;
}

uint32_t host_image_of(uint64_t f)
{
    for (uint32_t i = 0; i < LUA_MAX_IMAGES; i++)
        if (f >= s_image[i].from && f < s_image[i].to)
            return i + 1;
    return 0;
}

uint32_t host_image_add(uint64_t f)
{
    uint32_t i = 0;
    while (i < LUA_MAX_IMAGES && s_image[i].to)
        i++;
    if (i == LUA_MAX_IMAGES)
        return 0;
    s_image[i].object = object_of(f, &s_image[i].from, &s_image[i].to);
    return s_image[i].object ? i + 1 : 0;
}

const char *host_image_file(uint32_t image)
{
    const struct link_map *object = image ? s_image[image - 1].object : NULL;
    return !object ? "?" : object->l_name[0] ? object->l_name : "the program";
}

void host_image_functions(uint32_t image, const char *const *names, uint32_t n, uint64_t *to)
{
    const struct link_map *object = image ? s_image[image - 1].object : NULL;
    for (uint32_t i = 0; i < n; i++)
        to[i] = object ? (uint64_t)host_symbol(object, names[i]) : 0;
}

/* LuaJIT's allocator is in its own object, so the code of an image is Lua's code. */
bool host_is_lua_code(uint64_t ip)
{
    return host_image_of(ip) != 0;
}

bool host_is_other_code(uint64_t ip)
{
    struct dl_find_object found;
    return !host_is_lua_code(ip) && _dl_find_object((void *)ip, &found) == 0;
}

static bool is_loaded(uint32_t i)
{
    uint64_t from = 0, to;
    return object_of(s_image[i].from, &from, &to) == s_image[i].object && from == s_image[i].from;
}

uint32_t host_images_unloaded(void)
{
    uint32_t gone = 0;
    for (uint32_t i = 0; i < LUA_MAX_IMAGES; i++)
        if (s_image[i].to && !is_loaded(i)) {
            s_image[i].from = s_image[i].to = 0;
            lt_vm_image_gone(i + 1);
            gone |= 1U << i;
        }
    return gone;
}
