/* input.c - reads the bytes of a file or pipe, and decompresses them if they are zstd.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/input.h"
#include "memtrace/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE (256u << 10)
#define ZSTD_MAGIC "\x28\xb5\x2f\xfd"

static ssize_t read_file(struct input *in, uint8_t *to, size_t n)
{
    ssize_t got;
    if (in->file_size && n > in->file_size - in->position)
        n = in->file_size > in->position ? in->file_size - in->position : 0;
    do
        got = read(in->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        mt_fail(&in->err, MT_E_IO, in->offset, "cannot read: %s", strerror(errno));
    if (got <= 0)
        in->ended = true;
    else {
        in->file_bytes += (uint64_t)got;
        in->position += (uint64_t)got;
    }
    return got;
}

/* Make room for READ_SIZE bytes at the end of the window. */
static bool make_room(struct input *in)
{
    if (in->start) {
        memmove(in->data, in->data + in->start, in->end - in->start);
        in->end -= in->start;
        in->start = 0;
    }
    if (in->capacity - in->end >= READ_SIZE)
        return true;
    size_t capacity = in->capacity * 2 + READ_SIZE;
    uint8_t *data = realloc(in->data, capacity);
    if (!data) {
        mt_fail_memory(&in->err);
        return false;
    }
    in->data = data;
    in->capacity = capacity;
    return true;
}

/* Fill the buffer of compressed bytes if it is empty; false after an error. */
static bool refill_packed(struct input *in)
{
    if (in->packed_start < in->packed_end || in->ended)
        return true;
    ssize_t got = read_file(in, in->packed, READ_SIZE);
    in->packed_start = 0;
    in->packed_end = got > 0 ? (size_t)got : 0;
    return got >= 0;
}

/* Decompress one step; false at the end or after an error. When all compressed bytes are used, zstd may still hold
 * decompressed ones. Only a step that produces nothing shows that the file is cut off. */
static bool decompress(struct input *in)
{
    if (!refill_packed(in) || (in->packed_start == in->packed_end && in->frame_rest == 0))
        return false;
    ZSTD_inBuffer from = {in->packed, in->packed_end, in->packed_start};
    ZSTD_outBuffer to = {in->data, in->capacity, in->end};
    size_t rest = ZSTD_decompressStream(in->zstd, &to, &from);
    if (ZSTD_isError(rest)) {
        mt_fail(&in->err, MT_E_CORRUPT, in->offset, "damaged zstd data: %s", ZSTD_getErrorName(rest));
        return false;
    }
    if (to.pos == in->end && from.pos == in->packed_start && in->ended) {
        mt_fail(&in->err, MT_E_TRUNCATED, in->offset, "the zstd data end early; copy the file again");
        return false;
    }
    in->packed_start = from.pos;
    in->end = to.pos;
    in->frame_rest = rest;
    return true;
}

bool input_more(struct input *in)
{
    if (in->err.code != MT_E_NONE || !make_room(in))
        return false;
    if (in->zstd) {
        size_t before = in->end;
        while (in->end == before)
            if (!decompress(in))
                return false;
        return true;
    }
    ssize_t got = in->ended ? 0 : read_file(in, in->data + in->end, in->capacity - in->end);
    in->end += got > 0 ? (size_t)got : 0;
    return got > 0;
}

size_t input_need(struct input *in, size_t n)
{
    while (input_available(in) < n && input_more(in))
        continue;
    return input_available(in);
}

/* If the first bytes, which are in the window, are zstd, make them the compressed bytes. */
static bool begin_zstd(struct input *in)
{
    in->zstd = ZSTD_createDStream();
    in->packed = malloc(READ_SIZE > in->end ? READ_SIZE : in->end);
    if (!in->zstd || !in->packed) {
        mt_fail_memory(&in->err);
        return false;
    }
    memcpy(in->packed, in->data, in->end);
    in->packed_end = in->end;
    in->end = 0;
    in->frame_rest = 1;
    return true;
}

bool input_open(struct input *in, const char *path)
{
    struct stat st;
    *in = (struct input){.fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)};
    if (in->fd < 0 || fstat(in->fd, &st) < 0) {
        mt_fail(&in->err, MT_E_IO, 0, "cannot open: %s", strerror(errno));
        return false;
    }
    if (S_ISDIR(st.st_mode)) {
        mt_fail(&in->err, MT_E_IO, 0, "is a folder; name a file in it");
        return false;
    }
    in->file_size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    if (input_need(in, 4) >= 4 && memcmp(in->data, ZSTD_MAGIC, 4) == 0)
        return begin_zstd(in);
    return in->err.code == MT_E_NONE;
}

bool input_is_locked(const struct input *in)
{
    if (flock(in->fd, LOCK_SH | LOCK_NB) != 0)
        return errno == EWOULDBLOCK;
    flock(in->fd, LOCK_UN);
    return false;
}

bool input_is_growing(const struct input *in)
{
    struct stat now;
    if (in->file_size == 0)
        return false;
    if (fstat(in->fd, &now) == 0 && (uint64_t)now.st_size > in->file_size)
        return true; /* it was being written, and may have been completed since */
    return input_is_locked(in);
}

void input_extend(struct input *in)
{
    struct stat now;
    if (fstat(in->fd, &now) != 0 || (uint64_t)now.st_size <= in->file_size)
        return;
    in->file_size = (uint64_t)now.st_size;
    in->ended = false;
}

void input_limit(struct input *in, uint64_t size)
{
    if (in->zstd || in->file_size <= size)
        return;
    in->file_size = size;
    in->end -= in->position > size ? in->position - size : 0;
}

void input_close(struct input *in)
{
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    ZSTD_freeDStream(in->zstd);
    free(in->packed);
    free(in->data);
    *in = (struct input){.fd = -1};
}

bool input_seek(struct input *in, uint64_t offset)
{
    if (lseek(in->fd, (off_t)offset, SEEK_SET) < 0) {
        mt_fail(&in->err, MT_E_IO, offset, "cannot be sought in: %s", strerror(errno));
        return false;
    }
    in->start = in->end = 0;
    in->offset = in->position = offset;
    in->ended = false;
    return true;
}
