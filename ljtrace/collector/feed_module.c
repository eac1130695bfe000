/* feed_module.c - object files that are mapped, with their build ids, in the collector.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/feed_impl.h"
#include "ljtrace/symbols/build_id.h"
#include <limits.h>
#include <string.h>

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
        module.build_id_size = (uint8_t)build_id_read(path, module.build_id);
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
