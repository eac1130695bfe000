/* load_driver.c - opens a driver's shared object and checks its table.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/supervisor/load_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool good_name(const char *name)
{
    return name && name[0] && strlen(name) < 64 &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")] == 0;
}

const char *load_fault(const struct steve_driver *d)
{
    if (d->version != STEVE_DRIVER_VERSION)
        return "is written for another version of driver.h: build it again";
    if (d->size != sizeof *d)
        return "has a table of another size than driver.h: build it again";
    if (!good_name(d->name) || !d->description)
        return "has no usable name (letters, digits, - and _) or no description";
    if (d->confinement >= STEVE_CONFINEMENTS)
        return "does not say how it is confined";
    if (!d->init || !d->malloc || !d->free)
        return "lacks init, malloc or free";
    if ((d->flags & STEVE_MOVES) && (!d->lock || !d->unlock || !d->where))
        return "moves blocks but lacks lock, unlock or where";
    return NULL;
}

const struct steve_driver *load_driver(const char *path, char *text, size_t text_size)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        snprintf(text, text_size, "cannot be opened: %s", dlerror());
        return NULL;
    }
    const struct steve_driver *d = dlsym(object, STEVE_DRIVER_SYMBOL);
    if (!d) {
        snprintf(text, text_size, "is no driver: it has no symbol " STEVE_DRIVER_SYMBOL);
        return NULL;
    }
    const char *fault = load_fault(d);
    if (fault)
        snprintf(text, text_size, "%s", fault);
    return fault ? NULL : d;
}
