/* sink.h - writes the bytes of an ops file to a file descriptor, compressed by zstd if requested.
 *
 * The first error is kept and ends the writing. The descriptor is not closed.
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
    ZSTD_CCtx *zstd; /* NULL: no compression */
    uint8_t *packed;
    struct mt_error err;
};

/* Returns false and sets s->err when out of memory. */
bool ops_sink_init(struct ops_sink *s, int fd, bool compress);
void ops_sink_write(struct ops_sink *s, const void *data, size_t n);
/* End the zstd frame and free the memory of the sink; s->err stays. */
void ops_sink_finish(struct ops_sink *s);

#endif
