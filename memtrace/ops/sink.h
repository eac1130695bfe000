/* sink.h - where the bytes of an ops file go: a descriptor, through zstd if wanted.
 *
 * The first error is kept and ends the writing. Does not close the descriptor.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_SINK_H
#define MEMTRACE_OPS_SINK_H

#include "memtrace/memtrace.h"

#include <zstd.h>

struct ops_sink {
    int fd;
    uint64_t written;
    ZSTD_CCtx *zstd; /* NULL: as it is */
    uint8_t *packed;
    struct mt_error err;
};

/* False when out of memory, told in s->err. */
bool ops_sink_init(struct ops_sink *s, int fd, bool compress);
void ops_sink_write(struct ops_sink *s, const void *data, size_t n);
/* End the zstd frame and free what the sink holds; s->err stays. */
void ops_sink_finish(struct ops_sink *s);

#endif
