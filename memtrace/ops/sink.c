/* sink.c - writes the bytes of an ops file to a file descriptor.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/ops/sink.h"
#include "memtrace/base/compression.h"
#include "memtrace/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool ops_sink_init(struct ops_sink *s, int fd, bool compress)
{
    *s = (struct ops_sink){.fd = fd};
    if (!compress)
        return true;
    s->zstd = ZSTD_createCCtx();
    s->packed = malloc(ZSTD_CStreamOutSize());
    if (s->zstd && s->packed) {
        ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_compressionLevel, COMPRESSION_LEVEL);
        ZSTD_CCtx_setParameter(s->zstd, ZSTD_c_checksumFlag, 1);
        return true;
    }
    mt_fail_memory(&s->err);
    ops_sink_finish(s);
    return false;
}

static void write_out(struct ops_sink *s, const uint8_t *data, size_t n)
{
    while (n && s->err.code == MT_E_NONE) {
        ssize_t done = write(s->fd, data, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            mt_fail(&s->err, MT_E_IO, s->written, "cannot write: %s", strerror(done < 0 ? errno : ENOSPC));
            return;
        }
        data += done;
        n -= (size_t)done;
        s->written += (uint64_t)done;
    }
}

/* Pass n bytes to zstd and write its output; `how` is ZSTD_e_end to flush it. */
static void compress(struct ops_sink *s, const void *data, size_t n, ZSTD_EndDirective how)
{
    ZSTD_inBuffer in = {data, n, 0};
    size_t rest;
    do {
        ZSTD_outBuffer out = {s->packed, ZSTD_CStreamOutSize(), 0};
        rest = ZSTD_compressStream2(s->zstd, &out, &in, how);
        if (ZSTD_isError(rest)) {
            mt_fail(&s->err, MT_E_IO, s->written, "cannot compress: %s", ZSTD_getErrorName(rest));
            return;
        }
        write_out(s, s->packed, out.pos);
    } while (s->err.code == MT_E_NONE && (in.pos < in.size || (how == ZSTD_e_end && rest)));
}

void ops_sink_write(struct ops_sink *s, const void *data, size_t n)
{
    if (s->err.code != MT_E_NONE)
        return;
    if (s->zstd)
        compress(s, data, n, ZSTD_e_continue);
    else
        write_out(s, data, n);
}

void ops_sink_finish(struct ops_sink *s)
{
    if (s->zstd && s->err.code == MT_E_NONE)
        compress(s, NULL, 0, ZSTD_e_end);
    ZSTD_freeCCtx(s->zstd);
    free(s->packed);
    s->zstd = NULL;
    s->packed = NULL;
}
