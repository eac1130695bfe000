/* lua_misc.c - adds the profilers to each Lua state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The profilers' library is loaded with the first state, since its functions of Lua are found only then.
 */
#include "ljtrace/native/inside/lua_misc.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/native/inside/native.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

typedef void register_function(void *L);

/* The path of the profilers' library, which is beside this one. Returns false if it is not known. */
static bool find_path(char *to, size_t room)
{
    static const char name[] = "libljtrace-lua.so";
    Dl_info own;
    const char *slash =
        dladdr((void *)(uintptr_t)lua_misc_add, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    const size_t folder = slash ? (size_t)(slash + 1 - own.dli_fname) : 0;
    if (!slash || folder + sizeof name > room)
        return false;
    memcpy(to, own.dli_fname, folder);
    memcpy(to + folder, name, sizeof name);
    return true;
}

static register_function *load(void)
{
    char path[PATH_MAX];
    void *library = find_path(path, sizeof path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    register_function *found = library ? (register_function *)dlsym(library, "ljtrace_lua_register") : NULL;
    if (!found)
        text_say("ljtrace: there is no global misc: %s\n", dlerror());
    return found;
}

void lua_misc_add(void *L)
{
    static register_function *s_register;
    static bool s_is_loaded;
    if (!native_options.lua_api)
        return;
    if (!s_is_loaded) {
        s_is_loaded = true;
        s_register = load();
    }
    if (s_register)
        s_register(L);
}
