/* init_hooks.c - run code of the recorder between the relocation of new objects and their constructors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The dynamic linker calls the function for debuggers when it has mapped new objects, then relocates them, and then calls
 * the function that the entry DT_INIT of an object's dynamic section names, before the object's other constructors. At
 * the first moment the section can be written, and nothing has looked at the entry. A function of this file is put there
 * and calls the original one. Objects without the entry have no hook; events of the program notice them later.
 *
 * The objects at the end of the list are initialized first, since what an object needs follows it. So if there are more
 * new objects than hooks, the last ones get them. The dynamic linker's lock is held in all of this.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/init_hooks.h"
#include "ljtrace/native/inside/got.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

enum { HOOKS = 8 };

typedef void init_function(int argc, char **argv, char **environment);

/* The object that a hook belongs to; NULL = the hook is free. */
static struct hook {
    const struct link_map *object;
    ElfW(Dyn) * entry;
    ElfW(Addr) original; /* what the entry had */
} s_hooks[HOOKS];

static void on_init(struct hook *h, int argc, char **argv, char **environment)
{
    const int error = errno;
    init_function *original = (init_function *)(h->object->l_addr + h->original);
    h->object = NULL;
    if (got_is_late)
        got_catch_up();
    errno = error;
    original(argc, argv, environment);
}

#define HOOK(i)                                                                                              \
    static void hook_##i(int argc, char **argv, char **environment)                                          \
    {                                                                                                        \
        on_init(&s_hooks[i], argc, argv, environment);                                                       \
    }
/* clang-format off */
HOOK(0) HOOK(1) HOOK(2) HOOK(3) HOOK(4) HOOK(5) HOOK(6) HOOK(7)
    /* clang-format on */

    static init_function *const s_functions[HOOKS] = {hook_0, hook_1, hook_2, hook_3,
                                                      hook_4, hook_5, hook_6, hook_7};

static bool is_loaded(const struct link_map *object)
{
    const struct link_map *map = _r_debug.r_map;
    while (map && map != object)
        map = map->l_next;
    return map != NULL;
}

/* A free hook; NULL = there is none. An object that could not be opened in the end never uses its hook. */
static struct hook *free_hook(void)
{
    for (struct hook *h = s_hooks; h < s_hooks + HOOKS; h++) {
        if (h->object && !is_loaded(h->object))
            h->object = NULL;
        if (!h->object)
            return h;
    }
    return NULL;
}

static bool is_hooked(const struct link_map *object)
{
    for (struct hook *h = s_hooks; h < s_hooks + HOOKS; h++)
        if (h->object == object)
            return true;
    return false;
}

static void add(const struct link_map *object)
{
    struct hook *h = is_hooked(object) ? NULL : free_hook();
    ElfW(Dyn) *d = object->l_ld;
    while (d && d->d_tag != DT_NULL && d->d_tag != DT_INIT)
        d++;
    if (!h || !d || d->d_tag != DT_INIT)
        return;
    *h = (struct hook){object, d, d->d_un.d_ptr};
    d->d_un.d_ptr = (ElfW(Addr))s_functions[h - s_hooks] - object->l_addr;
}

void init_hooks_add(const struct link_map *last)
{
    const struct link_map *object = _r_debug.r_map;
    while (object && object->l_next)
        object = object->l_next;
    for (; object && object != last; object = object->l_prev)
        add(object);
}
