/* luastale.c - a Lua state whose allocator hands out freed blocks again, with all that was in them.
 *
 * Blocks of one size are kept when they are freed, and the one freed last is the next to be handed out. So new buffers lie where
 * strings were (32 bytes), of which only what the buffers hold has been written over; or, with the argument "tables", where
 * tables were (64 bytes), and nothing has. Prints how many blocks were handed out again in the end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 1000 };

static size_t s_size = 32;
static void *s_kept[KEPT];
static int s_count, s_again;

static void release(void *block, size_t size)
{
    if (size == s_size && s_count < KEPT)
        s_kept[s_count++] = block;
    else
        free(block);
}

static void *allocate(void *ud, void *old, size_t old_size, size_t size)
{
    (void)ud;
    if (size == 0) {
        release(old, old_size);
        return NULL;
    }
    if (old == NULL && size == s_size && s_count > 0) {
        s_again++;
        return s_kept[--s_count];
    }
    return realloc(old, size);
}

static const char s_strings[] = "jit.off()\n"
                                "local buffer, keep = require 'string.buffer', {}\n"
                                "for i = 1, 40 do keep[i] = buffer.new() end\n"
                                "for i = 1, 300 do tostring(10000 + i) end\n"
                                "collectgarbage() collectgarbage('stop')\n"
                                "for i = 1, 40 do keep[i]:put('begun') end\n";

static const char s_tables[] = "jit.off()\n"
                               "local buffer, keep = require 'string.buffer', {}\n"
                               "for i = 1, 40 do keep[i] = buffer.new() end\n"
                               "for i = 1, 300 do keep[100 + i] = {} end\n"
                               "for i = 1, 300 do keep[100 + i] = nil end\n"
                               "collectgarbage() collectgarbage('stop')\n"
                               "for i = 1, 40 do keep[i]:reserve(40) end\n";

int main(int argc, char **argv)
{
    const char *script = s_strings;
    if (argc > 1 && strcmp(argv[1], "tables") == 0) {
        script = s_tables;
        s_size = 64;
    }
    lua_State *L = lua_newstate(allocate, NULL);
    if (L == NULL)
        return 1;
    luaL_openlibs(L);
    s_again = 0;
    if (luaL_dostring(L, script) != 0) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        return 1;
    }
    printf("%d\n", s_again);
    lua_close(L);
    return 0;
}
