/* find_driver.c - finds drivers and lists them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/supervisor/find_driver.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct own_driver s_ours[] = {
#define ALLOCATOR(name, group, calls, need, package, library, build) {name, package, library},
#include "drivers/allocators/allocators.def"
#undef ALLOCATOR
};
enum { OURS = sizeof s_ours / sizeof s_ours[0] };

const struct own_driver *find_own(const char *name)
{
    for (size_t i = 0; i < OURS; i++)
        if (strcmp(s_ours[i].name, name) == 0)
            return &s_ours[i];
    return NULL;
}

static void own_folder(char out[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
}

/* Call `use` for each folder until it returns true. */
static bool each_folder(bool (*use)(const char *folder, void *ctx), void *ctx)
{
    const char *set = getenv("STEVE_DRIVERS");
    char copy[8 * PATH_MAX], own[PATH_MAX], *rest = copy, *folder;
    snprintf(copy, sizeof copy, "%s", set ? set : "");
    while ((folder = strsep(&rest, ":")))
        if (*folder && use(folder, ctx))
            return true;
    own_folder(own);
    /* Not the folder of installed commands: its file ld.so would be taken for a driver called ld. */
    return (strcmp(own, COMMAND_DIR) != 0 && use(own, ctx)) || use(DRIVER_DIR, ctx);
}

struct wanted {
    const char *file;
    char *path;
};

static bool is_here(const char *folder, void *ctx)
{
    struct wanted *w = ctx;
    return snprintf(w->path, PATH_MAX, "%s/%s", folder, w->file) < PATH_MAX && access(w->path, R_OK) == 0;
}

bool find_beside_drivers(const char *file, char path[PATH_MAX])
{
    struct wanted w = {file, path};
    return each_folder(is_here, &w);
}

bool find_driver(const char *name, char path[PATH_MAX])
{
    char file[PATH_MAX];
    const char *last = strrchr(name, '/');
    const char *base = last ? last + 1 : name;
    if (strncmp(base, "plot_", 5) == 0)
        base += 5;
    else if (last)
        return realpath(name, path) && access(path, R_OK) == 0;
    return snprintf(file, sizeof file, "%s.so", base) < PATH_MAX && find_beside_drivers(file, path);
}

struct listing {
    struct found *list;
    size_t count;
};

static bool known(const struct listing *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->list[i].name, name) == 0)
            return true;
    return false;
}

static void add(struct listing *l, const char *folder, const char *file)
{
    size_t n = strlen(file);
    struct found *f = &l->list[l->count];
    if (n < 4 || n - 3 >= sizeof f->name || strcmp(file + n - 3, ".so") != 0 || l->count == FIND_MOST)
        return;
    snprintf(f->name, sizeof f->name, "%.*s", (int)(n - 3), file);
    if (known(l, f->name))
        return;
    if (snprintf(f->path, sizeof f->path, "%s/%s", folder, file) < (int)sizeof f->path)
        l->count++;
}

static bool add_folder(const char *folder, void *ctx)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        add(ctx, folder, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return false;
}

size_t find_all(struct found list[FIND_MOST])
{
    struct listing l = {list, 0};
    for (; l.count < OURS; l.count++) {
        snprintf(list[l.count].name, sizeof list[0].name, "%s", s_ours[l.count].name);
        if (!find_driver(s_ours[l.count].name, list[l.count].path))
            list[l.count].path[0] = 0;
    }
    each_folder(add_folder, &l);
    return l.count;
}
