/* feed_module.c - object files that are mapped: the file of each, its name and its build id, in the collector.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The file is opened when the program maps it, because it may be removed or replaced while the program runs. If it is
 * gone already, its build id is still known from memory, by which `steve symbolize` finds a file with the same code.
 */
#include "ljtrace/collector/feed_impl.h"
#include "ljtrace/collector/mapped_file.h"
#include "ljtrace/symbols/build_id.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool contains(const struct feed_module *m, uint64_t ip)
{
    return ip - m->start < m->size;
}

/* Valgrind announces the range of the section .text only; of other sections the name decides. */
const struct feed_module *feed_module_of(const struct feed *f, uint64_t ip, struct raw_text named)
{
    const struct feed_module *same_name = NULL;
    for (uint32_t i = f->module_count; i-- > 0;) {
        const struct feed_module *m = &f->modules[i];
        if (strlen(m->named) != named.bytes || memcmp(m->named, named.at, named.bytes) != 0)
            continue;
        if (contains(m, ip))
            return m;
        if (!same_name)
            same_name = m;
    }
    return same_name;
}

const struct feed_module *feed_module_at(const struct feed *f, uint64_t ip)
{
    for (uint32_t i = f->module_count; i-- > 0;)
        if (contains(&f->modules[i], ip))
            return &f->modules[i];
    return NULL;
}

static void remove_module(struct feed *f, uint32_t i)
{
    free(f->modules[i].named);
    f->module_count--;
    memmove(&f->modules[i], &f->modules[i + 1], (f->module_count - i) * sizeof *f->modules);
}

void feed_modules_free(struct feed *f)
{
    while (f->module_count)
        remove_module(f, f->module_count - 1);
    free(f->modules);
}

static void add_module(struct feed *f, struct feed_module m)
{
    if (f->module_count == f->module_capacity) {
        f->module_capacity = f->module_capacity * 2 + 32;
        f->modules = realloc(f->modules, f->module_capacity * sizeof *f->modules);
        if (!f->modules)
            abort();
    }
    f->modules[f->module_count++] = m;
}

/* Open the file that is mapped. name: becomes what it is called. Returns NULL when out of memory. */
static struct debuginfo_object *open_file(struct feed *f, const struct mapped_file *m, char *name,
                                          size_t room, struct mt_module *module)
{
    int another;
    const int fd = mapped_file_open(m, mapped_file_name(m, name, room), &another);
    module->build_id_size = (uint8_t)build_id_in(m->image, m->image_bytes, module->build_id);
    if (!module->build_id_size && fd >= 0)
        module->build_id_size = (uint8_t)build_id_of(fd, module->build_id);
    struct debuginfo_object *file = debuginfo_add(f->debuginfo, name, fd);
    if (file && fd < 0)
        debuginfo_lacks(file, another ? "its path leads to another file now; steve symbolize can take a copy"
                                      : "the file was removed; steve symbolize can take a copy");
    if (fd < 0 && !module->build_id_size) /* nobody shall take it for the file that has this path now */
        snprintf(name + strlen(name), room - strlen(name), " (deleted)");
    return file;
}

const char *handle_module(struct feed *f, const struct ring_module *r)
{
    char name[PATH_MAX + 16];
    char *named = strndup(r->object.at, r->object.bytes);
    const struct mapped_file mapped = {.process = f->process,
                                       .start = r->start,
                                       .path = named,
                                       .image = (const uint8_t *)r->image.at,
                                       .image_bytes = r->image.bytes};
    struct mt_module module = {.start = r->start, .size = r->size, .bias = r->bias};
    if (!named)
        abort();
    struct debuginfo_object *file = open_file(f, &mapped, name, sizeof name, &module);
    module.object = mt_writer_string(f->writer, name, strlen(name));
    add_module(f, (struct feed_module){r->start, r->size, named, module.object, file, r->bias});
    feed_time(f, r->instructions);
    mt_writer_module(f->writer, &module);
    return NULL;
}

const char *handle_unmapped(struct feed *f, const struct ring_unmapped *r)
{
    for (uint32_t i = f->module_count; i-- > 0;)
        if (f->modules[i].start == r->start)
            remove_module(f, i);
    feed_time(f, r->instructions);
    mt_writer_unmapped(f->writer, r->start);
    return NULL;
}
