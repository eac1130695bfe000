/* feed_module.c - object files that are mapped, with their build ids, in the collector.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/feed_impl.h"
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Read the build id of a file. Returns its size, 0 if there is none or if the file cannot be read. */
static uint8_t read_build_id(const char *path, uint8_t id[MT_BUILD_ID_MOST])
{
    const void *bytes;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    ssize_t size = elf ? dwelf_elf_gnu_build_id(elf, &bytes) : 0;
    if (size < 0 || size > MT_BUILD_ID_MOST)
        size = 0;
    memcpy(id, size ? bytes : "", (size_t)size);
    elf_end(elf);
    close(fd);
    return (uint8_t)size;
}

const char *handle_module(struct feed *f, const struct ring_module *r)
{
    char path[PATH_MAX];
    struct mt_module module = {
        .start = r->start,
        .size = r->size,
        .bias = r->bias,
        .object = mt_writer_string(f->writer, r->object.at, r->object.bytes),
    };
    if (r->path.bytes < sizeof path) {
        memcpy(path, r->path.at, r->path.bytes);
        path[r->path.bytes] = 0;
        module.build_id_size = read_build_id(path, module.build_id);
    }
    feed_time(f, r->instructions);
    mt_writer_module(f->writer, &module);
    return NULL;
}

const char *handle_unmapped(struct feed *f, const struct ring_unmapped *r)
{
    feed_time(f, r->instructions);
    mt_writer_unmapped(f->writer, r->start);
    return NULL;
}
