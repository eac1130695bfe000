/* buffer.h - a growing byte buffer, with the state of delta-coded fields of records.
 *
 * Each stream of a chunk that is being written has one. If growing fails, `failed` is set and the data are unchanged,
 * so the owner can check once per chunk instead of once per byte.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_BUFFER_H
#define MEMTRACE_BASE_BUFFER_H

#include "memtrace/base/varint.h"

#include <stddef.h>

struct buffer {
    uint8_t *data, *p, *end;
    uint64_t addr, ip, time; /* previous values of delta-coded fields, as in struct cursor */
    bool failed;
};

bool buffer_grow(struct buffer *b, size_t room);
void buffer_append(struct buffer *b, const void *bytes, size_t n);
void buffer_free(struct buffer *b);

static inline size_t buffer_size(const struct buffer *b)
{
    return (size_t)(b->p - b->data);
}

/* Empty the buffer and reset the delta state. The memory is kept. */
static inline void buffer_reset(struct buffer *b)
{
    b->p = b->data;
    b->addr = b->ip = b->time = 0;
}

/* Make room for n bytes at b->p. */
static inline bool buffer_reserve(struct buffer *b, size_t n)
{
    return (size_t)(b->end - b->p) >= n || buffer_grow(b, n);
}

static inline void buffer_byte(struct buffer *b, uint8_t v)
{
    if (buffer_reserve(b, 1))
        *b->p++ = v;
}

static inline void buffer_uvarint(struct buffer *b, uint64_t v)
{
    if (buffer_reserve(b, UVARINT_MAX_BYTES))
        b->p = uvarint_write(b->p, v);
}

#endif
