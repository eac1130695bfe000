/* reader.c - reading ops and lockops text: `HANDLE OP ADDR SIZE` per line; see ops.h.
 *
 * A file that begins as a binary one is handed to decoder.c, or, if it holds a trace, to source.c.
 * Unlike classic memtraces these files hold nothing else, so every line that is not empty and not a comment
 * must be right. Fields may be separated by several spaces or tabs; lines may end in CR LF.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/base/lines.h"
#include "memtrace/format/chunk.h"
#include "memtrace/ops.h"
#include "memtrace/ops/binary.h"
#include "memtrace/ops/check.h"
#include "memtrace/ops/source.h"
#include "memtrace/ops/trace_copy.h"
#include "memtrace/read/reader_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPS_BATCH 1024
/* How much of the file is looked at to find out the kind. */
#define SNIFF_SIZE (1u << 20)

struct ops_reader {
    struct input in;
    enum ops_kind kind;
    struct lines text;          /* of which only comments may be too long */
    uint32_t thread;            /* as the last comment with one says */
    uint64_t time;              /* the same */
    struct ops_decoder *binary; /* NULL for text, and where there is a trace: */
    struct mt_reader *trace;
    bool resizes; /* of the trace are R */
    struct op_source *source;
    bool checks;
    struct ops_check check;
    uint64_t passed; /* operations given before the present batch, where they are checked */
    struct mt_error err;
    struct op ops[OPS_BATCH];
    uint64_t lines[OPS_BATCH]; /* of text: the lines of the operations */
};

enum line_result { LINE_EMPTY, LINE_OP, LINE_WRONG };

/* -- one line -- */

static const uint8_t *skip_spaces(const uint8_t *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r')
        p++;
    return p;
}

static bool at_space(const uint8_t *p)
{
    return *p == ' ' || *p == '\t' || *p == '\r' || *p == '\n';
}

static bool read_number(const uint8_t **at, uint64_t *v)
{
    const uint8_t *p = skip_spaces(*at), *start = p;
    uint64_t n = 0;
    bool fits = true;
    for (; *p >= '0' && *p <= '9'; p++) {
        unsigned digit = *p - '0';
        fits &= n < UINT64_MAX / 10 || (n == UINT64_MAX / 10 && digit <= UINT64_MAX % 10);
        n = n * 10 + digit;
    }
    *v = n;
    *at = p;
    return fits && p > start && at_space(p);
}

/* The fields of a line that ends in '\n'; the letter is not yet looked at. */
static enum line_result split_line(const uint8_t *p, struct op *op, char *letter)
{
    p = skip_spaces(p);
    if (*p == '\n' || *p == '#')
        return LINE_EMPTY;
    if (!read_number(&p, &op->handle) || op->handle == UINT64_MAX) /* which means none */
        return LINE_WRONG;
    p = skip_spaces(p);
    *letter = (char)*p;
    if (*p == '\n' || !at_space(p + 1))
        return LINE_WRONG;
    p++;
    if (!read_number(&p, &op->addr) || !read_number(&p, &op->size))
        return LINE_WRONG;
    return *skip_spaces(p) == '\n' ? LINE_OP : LINE_WRONG;
}

/* What a letter means in a kind of file; OP_CODES = nothing. */
static enum ops_code code_of(char letter, enum ops_kind kind)
{
    bool lock = kind == OPS_LOCK;
    switch (letter) {
    case 'N':
        return OP_NEW;
    case 'F':
        return OP_FREE;
    case 'L':
        return lock ? OP_LOCK : OP_LOAD;
    case 'S':
        return lock ? OP_CODES : OP_STORE;
    case 'M':
        return lock ? OP_CODES : OP_MODIFY;
    case 'U':
        return lock ? OP_UNLOCK : OP_CODES;
    case 'O':
        return lock ? OP_COMPACT : OP_CODES;
    case 'R':
        return OP_RESIZE;
    default:
        return OP_CODES;
    }
}

static int wrong_line(struct ops_reader *r, const char *what)
{
    return mt_fail(&r->err, MT_E_CORRUPT, r->text.number, "line %llu: %s", (unsigned long long)r->text.number,
                   what);
}

/* Is it the first line of a memtrace, binary or text? */
static bool is_of_memtrace(const uint8_t *p)
{
    const char *line = (const char *)p; /* ends in '\n' */
    return strncmp(line, FILE_MAGIC, 4) == 0 || strncmp(line, ">>> ", 4) == 0;
}

/* The number of a comment that is `says`, a number and nothing else. */
static bool comment_number(const uint8_t *p, const char *says, uint64_t *v)
{
    size_t n = strlen(says);
    if (strncmp((const char *)p, says, n) != 0)
        return false;
    p += n;
    return read_number(&p, v) && *skip_spaces(p) == '\n';
}

/* A line without an operation may say something about those that follow. */
static bool take_comment(struct ops_reader *r, const uint8_t *p)
{
    uint64_t v;
    if (comment_number(p, OPS_SAYS_TIME, &v))
        r->time = v;
    if (!comment_number(p, OPS_SAYS_THREAD, &v))
        return true;
    r->thread = (uint32_t)v;
    return v <= OPS_MOST_THREADS;
}

/* Parse a line into *op; how many operations that made, or MT_ERROR. */
static int take_line(struct ops_reader *r, const uint8_t *p, struct op *op)
{
    char letter;
    enum line_result result = r->text.in_long ? LINE_EMPTY : split_line(p, op, &letter);
    if (result == LINE_WRONG && r->text.number == 1 && is_of_memtrace(p))
        return mt_fail(&r->err, MT_E_CORRUPT, 0, "is a memtrace; `steve ops` makes an ops file of it");
    if (result == LINE_WRONG)
        return wrong_line(r,
                          "expected `HANDLE OP ADDRESS SIZE`, decimal 64-bit numbers; is this an ops file?");
    if (result == LINE_EMPTY && !r->text.in_long && !take_comment(r, p))
        return wrong_line(r, "threads have numbers up to 65535");
    if (result == LINE_OP) {
        op->thread = r->thread;
        op->time = r->time;
        op->code = code_of(letter, r->kind);
        if (op->code == OP_CODES)
            return wrong_line(r, r->kind == OPS_LOCK ? "expected one of N F R L U O in a lockops file"
                                                     : "expected one of N F R L S M in an ops file");
    }
    return result == LINE_OP;
}

/* -- finding out the kind -- */

static bool ends_with(const char *s, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(s + len - n, end, n) == 0;
}

static enum ops_kind kind_by_name(const char *path)
{
    size_t len = strlen(path);
    if (ends_with(path, len, ".zst"))
        len -= 4;
    return ends_with(path, len, "-lockops") || ends_with(path, len, "-lockopsfull") ? OPS_LOCK : OPS_UNKNOWN;
}

static enum ops_kind kind_by_line(const uint8_t *p)
{
    struct op op;
    char letter;
    if (split_line(p, &op, &letter) != LINE_OP || !letter)
        return OPS_UNKNOWN;
    if (strchr("SM", letter))
        return OPS_ACCESS;
    if (strchr("UO", letter))
        return OPS_LOCK;
    if (letter == 'L')
        return op.addr == 0 && op.size == 0 ? OPS_LOCK : OPS_ACCESS;
    return OPS_UNKNOWN;
}

static enum ops_kind kind_by_content(struct ops_reader *r)
{
    size_t n = input_need(&r->in, SNIFF_SIZE);
    const uint8_t *p = input_bytes(&r->in), *end = n ? memrchr(p, '\n', n) : NULL;
    enum ops_kind kind = OPS_UNKNOWN;
    while (end && p <= end && kind == OPS_UNKNOWN) {
        kind = kind_by_line(p);
        p = (const uint8_t *)rawmemchr(p, '\n') + 1;
    }
    return kind == OPS_UNKNOWN ? OPS_ACCESS : kind;
}

/* -- reading -- */

static bool fits_hint(struct ops_reader *r, enum ops_kind hint)
{
    if (hint == OPS_UNKNOWN || hint == r->kind)
        return true;
    mt_fail(&r->err, MT_E_FORMAT, 0, "is a binary file of %s, not of %s",
            r->kind == OPS_LOCK ? "lockops" : "ops", hint == OPS_LOCK ? "lockops" : "ops");
    return false;
}

/* The file is binary: false if it cannot be read or is of another kind than expected. */
static bool begin_binary(struct ops_reader *r, enum ops_kind hint)
{
    r->binary = ops_decoder_new(&r->in, &r->err);
    if (!r->binary)
        return false;
    r->kind = r->binary->kind;
    return fits_hint(r, hint);
}

/* The file holds a trace. */
static bool begin_trace(struct ops_reader *r, enum ops_kind hint)
{
    if (input_need(&r->in, OPS_COPY_HEADER) < OPS_COPY_HEADER) {
        mt_fail(&r->err, MT_E_TRUNCATED, 0, "the ops file ends within its header; make it again");
        return false;
    }
    const char *wrong = ops_copy_header_unpack(input_bytes(&r->in), &r->resizes);
    if (wrong) {
        mt_fail(&r->err, MT_E_CORRUPT, 0, "damaged ops file: %s; make it again", wrong);
        return false;
    }
    r->kind = OPS_ACCESS;
    if (!fits_hint(r, hint))
        return false;
    input_skip(&r->in, OPS_COPY_HEADER);
    r->trace = reader_of_ops(&r->in, OPS_CHUNKS, &r->err);
    r->in = (struct input){.fd = -1};
    if (r->trace)
        r->source = op_source_new(r->trace, NULL, (struct op_source_options){.resizes = r->resizes});
    return r->source || mt_fail_memory(&r->err) != MT_ERROR;
}

static bool begin(struct ops_reader *r, const char *path, enum ops_kind hint)
{
    if (!input_open(&r->in, path)) {
        r->err = r->in.err;
        return false;
    }
    if (ops_binary_here(&r->in))
        return input_bytes(&r->in)[OPS_MAGIC_SIZE - 1] == OPS_VERSION_COPIED ? begin_trace(r, hint)
                                                                             : begin_binary(r, hint);
    r->text.number = 1;
    r->kind = hint != OPS_UNKNOWN ? hint : kind_by_name(path);
    if (r->kind == OPS_UNKNOWN)
        r->kind = kind_by_content(r);
    return true;
}

struct ops_reader *ops_open(const char *path, enum ops_kind hint, struct mt_error *err)
{
    struct ops_reader *r = calloc(1, sizeof *r);
    if (!r) {
        mt_fail_memory(err);
        return NULL;
    }
    if (begin(r, path, hint))
        return r;
    if (err)
        *err = r->err;
    ops_close(r);
    return NULL;
}

void ops_close(struct ops_reader *r)
{
    if (!r)
        return;
    input_close(&r->in);
    ops_decoder_free(r->binary);
    op_source_free(r->source);
    mt_close(r->trace);
    if (r->checks)
        ops_check_free(&r->check);
    free(r);
}

bool ops_reader_is_binary(const struct ops_reader *r)
{
    return r->binary || r->trace;
}

struct mt_reader *ops_reader_trace(struct ops_reader *r)
{
    return r->trace;
}

bool ops_reader_resizes(const struct ops_reader *r)
{
    return r->resizes;
}

enum ops_kind ops_reader_kind(const struct ops_reader *r)
{
    return r->kind;
}

const struct mt_error *ops_reader_error(const struct ops_reader *r)
{
    return r->trace && r->err.code == MT_E_NONE ? mt_reader_error(r->trace) : &r->err;
}

uint64_t ops_reader_bytes(const struct ops_reader *r, uint64_t *total)
{
    const struct input *in = r->trace ? &r->trace->in : &r->in;
    if (total)
        *total = in->file_size;
    return in->file_bytes;
}

/* Parse the lines in the window, as many as there is room for; at least one operation, unless the file ends before. */
static int next_lines(struct ops_reader *r, size_t *n)
{
    const uint8_t *line;
    enum lines_found found;
    while (*n < OPS_BATCH && r->err.code == MT_E_NONE &&
           (found = lines_next(&r->text, &r->in, *n == 0, &line)) != LINES_NONE) {
        int made = 0;
        r->lines[*n] = r->text.number;
        if (found == LINES_WHOLE)
            made = take_line(r, line, &r->ops[*n]);
        else if (!r->text.in_long && *line != '#')
            made = wrong_line(r, "is far too long for an operation");
        if (made < 0)
            break;
        *n += (size_t)made;
        lines_pass(&r->text, &r->in);
    }
    if (*n)
        return MT_MORE;
    if (r->err.code == MT_E_NONE)
        r->err = r->in.err;
    return r->err.code == MT_E_NONE ? MT_END : MT_ERROR;
}

static int next_binary(struct ops_reader *r, size_t *n)
{
    int got = r->err.code == MT_E_NONE ? ops_decode(r->binary, &r->in, r->ops, OPS_BATCH, &r->err) : MT_ERROR;
    *n = got > 0 ? (size_t)got : 0;
    return got > 0 ? MT_MORE : got == 0 ? MT_END : MT_ERROR;
}

void ops_pass_accesses(struct ops_reader *r)
{
    if (r->binary)
        r->binary->passes = true;
    if (r->source)
        op_source_skip_accesses(r->source);
}

static int next_of_trace(struct ops_reader *r, const struct op **ops, size_t *n)
{
    int result = op_source_next(r->source, ops, n);
    if (result == MT_ERROR && op_source_out_of_memory(r->source))
        mt_fail_memory(&r->err);
    if (result != MT_MORE)
        *n = 0;
    return result;
}

bool ops_reader_check(struct ops_reader *r)
{
    r->checks = r->checks || ops_check_init(&r->check);
    return r->checks;
}

uint64_t ops_reader_shared(const struct ops_reader *r)
{
    return r->checks ? r->check.addresses.shared : 0;
}

uint64_t ops_reader_line(const struct ops_reader *r, size_t i)
{
    return ops_reader_is_binary(r) ? 0 : r->lines[i];
}

/* Operation i of the batch contradicts those before it. */
static void refuse(struct ops_reader *r, const struct op *op, size_t i, const char *why)
{
    uint64_t line = ops_reader_line(r, i);
    char place[32] = "";
    if (line)
        snprintf(place, sizeof place, "line %llu: ", (unsigned long long)line);
    mt_fail(&r->err, MT_E_CORRUPT, line, "%soperation %llu (%c): handle %llu %s", place,
            (unsigned long long)(r->passed + i), ops_letter((enum ops_code)op->code),
            (unsigned long long)op->handle, why);
}

/* Check a batch: those before the first wrong one are given, then comes the error. */
static int checked(struct ops_reader *r, int result, const struct op *ops, size_t *n)
{
    const char *why;
    for (size_t i = 0; i < *n; i++) {
        if ((why = ops_check_one(&r->check, &ops[i]))) {
            refuse(r, &ops[i], i, why);
            *n = i;
            return i ? MT_MORE : MT_ERROR;
        }
    }
    r->passed += *n;
    return result;
}

static int next_batch(struct ops_reader *r, const struct op **ops, size_t *n)
{
    *n = 0;
    *ops = r->ops;
    if (r->source)
        return next_of_trace(r, ops, n);
    if (r->binary)
        return next_binary(r, n);
    return next_lines(r, n);
}

int ops_next(struct ops_reader *r, const struct op **ops, size_t *n)
{
    int result = next_batch(r, ops, n);
    return r->checks && !r->trace ? checked(r, result, *ops, n) : result;
}

/* -- the list of the blocks that are never freed --
 *
 * The list (memtrace/base/id_list.h) is found by reading the headers of all blocks. Errors are not reported here: the
 * list is then missing, and reading the file reports the error. */

/* Read n bytes at an offset; false if there are fewer, or if the file cannot seek. */
static bool read_at(int fd, void *to, size_t n, uint64_t offset)
{
    return pread(fd, to, n, (off_t)offset) == (ssize_t)n;
}

/* The decompressed payload of a block. The caller frees it. NULL if it is damaged. */
static uint8_t *payload_at(int fd, uint64_t offset, const uint8_t *header, const struct ops_block *b)
{
    uint8_t *stored = malloc(b->stored + 1), *raw = malloc(b->size);
    bool good = stored && raw && read_at(fd, stored, b->stored, offset) &&
                ops_block_hash(header, stored, b->stored) == b->hash &&
                ZSTD_decompress(raw, b->size, stored, b->stored) == b->size;
    free(stored);
    if (good)
        return raw;
    free(raw);
    return NULL;
}

static bool take_at(struct id_list *list, int fd, uint64_t offset, const uint8_t *header,
                    const struct ops_block *b)
{
    uint8_t *payload = payload_at(fd, offset, header, b);
    bool taken = payload && id_list_read(list, payload, b->size, b->total);
    free(payload);
    return taken;
}

/* Read all headers up to the end; false after an error. */
static bool find_list(int fd, struct id_list *list)
{
    uint64_t offset = OPS_MAGIC_SIZE + 1;
    for (;;) {
        uint8_t header[OPS_HEADER_SIZE];
        struct ops_block b;
        if (!read_at(fd, header, sizeof header, offset) || !ops_block_parse(header, OPS_ACCESS, &b))
            return false;
        if (b.size == 0)
            return list->begun && !list->more;
        offset += sizeof header;
        if (b.count == 0 && !take_at(list, fd, offset, header, &b))
            return false;
        offset += b.stored;
    }
}

/* The same for a file that contains a trace, which has a list of the same form. */
static bool read_from_trace(const char *path, uint64_t **ordinals, size_t *n)
{
    struct mt_error err;
    struct ops_reader *r = ops_open(path, OPS_ACCESS, &err);
    *ordinals = NULL;
    *n = 0;
    bool good = r && mt_survivors(ops_reader_trace(r), ordinals, n);
    ops_close(r);
    return good;
}

bool ops_read_survivors(const char *path, uint64_t **ordinals, size_t *n)
{
    uint8_t magic[OPS_MAGIC_SIZE + 1];
    struct id_list list = {.keeps = true};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool here = fd >= 0 && read_at(fd, magic, sizeof magic, 0) &&
                memcmp(magic, OPS_MAGIC, OPS_MAGIC_SIZE - 1) == 0 && magic[OPS_MAGIC_SIZE] == OPS_ACCESS;
    const uint8_t version = here ? magic[OPS_MAGIC_SIZE - 1] : 0;
    bool listed = version == OPS_VERSION_ENCODED && find_list(fd, &list);
    if (fd >= 0)
        close(fd);
    if (version == OPS_VERSION_COPIED)
        return read_from_trace(path, ordinals, n);
    return id_list_finish(&list, listed, ordinals, n);
}
