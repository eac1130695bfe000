/* input.h - bytes of a file, pipe or standard input, decompressed on the way if they are zstd.
 *
 * Never seeks, so that traces can be piped. A window of bytes is kept in memory: input_need makes at least
 * n of them available, input_skip drops what was used. Offsets are of the decompressed bytes. Several zstd
 * frames one after another read as one stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_INPUT_H
#define MEMTRACE_BASE_INPUT_H

#include "memtrace/memtrace.h"

#include <zstd.h>

struct input {
    int fd;
    bool ended;    /* no more bytes come from the file */
    uint8_t *data; /* the window is data[start .. end) */
    size_t start, end, capacity;
    uint64_t offset;     /* of data[start] */
    uint64_t file_bytes; /* read from the file */
    uint64_t file_size;  /* when it was opened: of a file that grows no more is read. 0 = not known */
    uint64_t position;   /* in the file, of the next byte to be read */
    ZSTD_DStream *zstd;  /* NULL for plain input */
    uint8_t *packed;     /* compressed bytes not yet used: packed[packed_start .. packed_end) */
    size_t packed_start, packed_end;
    size_t frame_rest; /* what zstd still wants of the current frame; 0 between frames */
    struct mt_error err;
};

/* Open and look for zstd; "-" is standard input. False on error, described in in->err. */
bool input_open(struct input *in, const char *path);
void input_close(struct input *in);

/* Make n bytes available at input_bytes(). Returns how many there are: fewer only at the end of the input or
 * after an error. */
size_t input_need(struct input *in, size_t n);

/* Read more into the window, whatever there is; false at the end or after an error. */
bool input_more(struct input *in);

/* Is another process writing the file, as the recorder does under a lock, or has one since it was opened? */
bool input_is_growing(const struct input *in);
/* Right after input_open, of a plain file: its first `size` bytes are all of it. */
void input_limit(struct input *in, uint64_t size);

/* Go on at an offset of a plain file. False on error. */
bool input_seek(struct input *in, uint64_t offset);

static inline const uint8_t *input_bytes(const struct input *in)
{
    return in->data + in->start;
}

static inline size_t input_available(const struct input *in)
{
    return in->end - in->start;
}

static inline void input_skip(struct input *in, size_t n)
{
    in->start += n;
    in->offset += n;
}

#endif
