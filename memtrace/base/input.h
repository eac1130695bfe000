/* input.h - reads the bytes of a file, pipe or standard input, and decompresses them if they are zstd.
 *
 * It never seeks unless input_seek is called, so that traces can be piped. A window of bytes is kept in memory:
 * input_need makes at least n bytes available, input_skip drops bytes that were processed. Offsets are those of the
 * decompressed bytes. Several zstd frames in sequence are read as one stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_INPUT_H
#define MEMTRACE_BASE_INPUT_H

#include "memtrace/memtrace.h"

#include <zstd.h>

struct input {
    int fd;
    bool ended;    /* the end of the file was reached */
    uint8_t *data; /* the window is data[start .. end) */
    size_t start, end, capacity;
    uint64_t offset;     /* offset of data[start] */
    uint64_t file_bytes; /* number of bytes read from the file */
    uint64_t file_size;  /* size when it was opened; bytes written later are not read. 0 = not known */
    uint64_t position;   /* offset in the file of the next byte to be read */
    ZSTD_DStream *zstd;  /* NULL for plain input */
    uint8_t *packed;     /* compressed bytes not processed yet: packed[packed_start .. packed_end) */
    size_t packed_start, packed_end;
    size_t frame_rest; /* number of bytes that zstd expects of the current frame; 0 between frames */
    struct mt_error err;
};

/* Open a file and check whether it is zstd; "-" is standard input. On error returns false and sets in->err. */
bool input_open(struct input *in, const char *path);
void input_close(struct input *in);

/* Make n bytes available at input_bytes(). Returns the number available, which is smaller only at the end of the
 * input or after an error. */
size_t input_need(struct input *in, size_t n);

/* Read some more bytes into the window; false at the end or after an error. */
bool input_more(struct input *in);

/* Is another process writing the file? The recorder holds a lock while it writes. */
bool input_is_locked(const struct input *in);
/* Is another process writing the file, or was it when the file was opened? */
bool input_is_growing(const struct input *in);
/* Read also what was written to a plain file since it was opened. */
void input_extend(struct input *in);
/* Regard the first `size` bytes of a plain file as all of it. Called right after input_open. */
void input_limit(struct input *in, uint64_t size);

/* Continue at an offset of a plain file; false on error. */
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
