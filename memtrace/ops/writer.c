/* writer.c - writes ops and lockops files.
 *
 * Text is written into a buffer, two digits of a number at a time; the buffer is written to the file when it is
 * nearly full. The binary form is written by encoder.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/compression.h"
#include "memtrace/base/error.h"
#include "memtrace/ops.h"
#include "memtrace/ops/binary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_SIZE (256u << 10)
/* Maximum size of an operation in text: three numbers of 20 digits, a letter, spaces and the newline, preceded by
 * two comments with a number. */
#define LINE_ROOM 144

struct ops_writer {
    struct ops_sink sink;
    struct ops_encoder *binary; /* NULL for text */
    size_t used;
    uint32_t thread; /* thread of the last operation */
    uint64_t time;   /* time of the last operation */
    char buffer[BUFFER_SIZE];
};

char ops_letter(enum ops_code c)
{
    static const char letters[OP_CODES] = {'N', 'F', 'L', 'S', 'M', 'L', 'U', 'O', 'R'};
    return (unsigned)c < OP_CODES ? letters[c] : '?';
}

static bool begin(struct ops_writer *w, int fd, enum ops_form form, enum ops_kind kind,
                  struct ops_piece piece)
{
    w->used = 0;
    w->thread = 0;
    w->time = 0;
    w->binary = NULL;
    if (!ops_sink_init(&w->sink, fd, form == OPS_TEXT_ZSTD))
        return false;
    if (form == OPS_BINARY)
        w->binary = ops_encoder_new(&w->sink, kind, piece, &w->sink.err);
    return form != OPS_BINARY || w->binary;
}

struct ops_writer *ops_writer_piece(int fd, enum ops_form form, enum ops_kind kind, struct ops_piece piece,
                                    struct mt_error *err)
{
    struct ops_writer *w = malloc(sizeof *w);
    if (w && begin(w, fd, form, kind, piece))
        return w;
    mt_fail_memory(err);
    free(w);
    return NULL;
}

struct ops_writer *ops_writer_open(int fd, enum ops_form form, enum ops_kind kind, struct mt_error *err)
{
    return ops_writer_piece(fd, form, kind, (struct ops_piece){.first = true, .last = true}, err);
}

static void write_out(struct ops_writer *w)
{
    ops_sink_write(&w->sink, w->buffer, w->used);
    w->used = 0;
}

static char *put_number(char *to, uint64_t v)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    char digits[20], *p = digits + sizeof digits;
    for (; v >= 100; v /= 100)
        memcpy(p -= 2, pairs + v % 100 * 2, 2);
    if (v >= 10)
        memcpy(p -= 2, pairs + v * 2, 2);
    else
        *--p = (char)('0' + v);
    size_t n = (size_t)(digits + sizeof digits - p);
    memcpy(to, p, n);
    return to + n;
}

/* Write comments with thread and time if they differ from those of the operation before. */
static char *put_marks(struct ops_writer *w, char *p, const struct op *op)
{
    if (op->thread != w->thread) {
        p = put_number(stpcpy(p, OPS_SAYS_THREAD), op->thread);
        *p++ = '\n';
        w->thread = op->thread;
    }
    if (op->time != w->time) {
        p = put_number(stpcpy(p, OPS_SAYS_TIME), op->time);
        *p++ = '\n';
        w->time = op->time;
    }
    return p;
}

static void write_text(struct ops_writer *w, const struct op *ops, size_t n)
{
    for (size_t i = 0; i < n && w->sink.err.code == MT_E_NONE; i++) {
        if (w->used + LINE_ROOM > BUFFER_SIZE)
            write_out(w);
        char *p = put_marks(w, w->buffer + w->used, &ops[i]);
        p = put_number(p, ops[i].handle);
        *p++ = ' ';
        *p++ = ops_letter((enum ops_code)ops[i].code);
        *p++ = ' ';
        p = put_number(p, ops[i].addr);
        *p++ = ' ';
        p = put_number(p, ops[i].size);
        *p++ = '\n';
        w->used = (size_t)(p - w->buffer);
    }
}

void ops_write(struct ops_writer *w, const struct op *ops, size_t n)
{
    if (w->binary)
        ops_encode(w->binary, &w->sink, ops, n);
    else
        write_text(w, ops, n);
}

uint32_t ops_writer_shape(struct ops_writer *w, const struct ops_part *parts, unsigned count, unsigned words)
{
    uint32_t shape = w->binary ? ops_encoder_shape(w->binary, parts, count, words) : 0;
    if (w->binary && !shape)
        mt_fail_memory(&w->sink.err);
    return shape;
}

void ops_write_executions(struct ops_writer *w, struct ops_executions *x)
{
    ops_encode_executions(w->binary, &w->sink, x);
}

void ops_writer_survivors(struct ops_writer *w, const uint64_t *ordinals, size_t n)
{
    if (w->binary)
        ops_encode_survivors(w->binary, &w->sink, ordinals, n);
}

int ops_writer_finish(struct ops_writer *w, struct mt_error *err)
{
    write_out(w);
    if (w->binary)
        ops_encoder_finish(w->binary, &w->sink);
    ops_sink_finish(&w->sink);
    int result = w->sink.err.code == MT_E_NONE ? MT_OK : MT_ERROR;
    if (err)
        *err = w->sink.err;
    free(w);
    return result;
}

/* -- writes the bytes of an ops file to a file descriptor. -- */

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

static void write_bytes(struct ops_sink *s, const uint8_t *data, size_t n)
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
        write_bytes(s, s->packed, out.pos);
    } while (s->err.code == MT_E_NONE && (in.pos < in.size || (how == ZSTD_e_end && rest)));
}

void ops_sink_write(struct ops_sink *s, const void *data, size_t n)
{
    if (s->err.code != MT_E_NONE)
        return;
    if (s->zstd)
        compress(s, data, n, ZSTD_e_continue);
    else
        write_bytes(s, data, n);
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
