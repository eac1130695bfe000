/* buffer.h - a growing byte buffer, with the state of delta-coded fields of records.
 *
 * Each stream of a chunk that is being written has one. If growing fails, `failed` is set and the data are unchanged,
 * so the owner can check once per chunk instead of once per byte.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_BUFFER_H
#define MEMTRACE_BASE_BUFFER_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* -- numbers of variable length: uvarint and zigzag --
 *
 * A uvarint is LEB128: seven bits per byte, low bits first; the top bit says that another byte follows; at most ten
 * bytes. Zigzag moves the sign to bit 0, so that negative numbers close to 0 stay short. A cursor never reads beyond
 * its end. If it would, it is marked bad, stays bad, and returns zeros. */

#define UVARINT_MAX_BYTES 10
#define UVARINT_BEYOND 7 /* bytes after a number that uvarint_write_any may overwrite */

static inline uint64_t zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* Write v at p, which must have room for UVARINT_MAX_BYTES. Returns the address after it. */
static inline uint8_t *uvarint_write(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)v | 0x80;
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* Spread the low 56 bits over eight bytes, seven bits in each. It splits the word into halves of 28 bits, then 14,
 * then 7. */
static inline uint64_t part_sevens(uint64_t v)
{
    v = (v & UINT64_C(0x000000000fffffff)) | (v & UINT64_C(0x00fffffff0000000)) << 4;
    v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x0fffc0000fffc000)) << 2;
    return (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x3f803f803f803f80)) << 1;
}

/* The same without a branch on the length, for numbers of up to eight bytes whose lengths are unpredictable. Needs
 * room for UVARINT_BEYOND more bytes. */
static inline uint8_t *uvarint_write_any(uint8_t *p, uint64_t v)
{
    if (v >> 56)
        return uvarint_write(p, v);
    const unsigned more = (63u - (unsigned)__builtin_clzll(v | 1)) / 7;
    const uint64_t bytes =
        htole64(part_sevens(v) | (UINT64_C(0x8080808080808080) & ((UINT64_C(1) << more * 8) - 1)));
    memcpy(p, &bytes, sizeof bytes);
    return p + more + 1;
}

/* A position in a stream of one chunk. addr, ip and time are the previous values of delta-coded fields. */
struct cursor {
    const uint8_t *p, *end;
    uint64_t addr, ip, time;
    bool bad;
    uint8_t kinds; /* number of kinds of events that the file counts; 0 = all (memtrace/kinds.def) */
};

/* The inverse of part_sevens: join the seven low bits of each of eight bytes. */
static inline uint64_t join_sevens(uint64_t w)
{
    w = (w & UINT64_C(0x007f007f007f007f)) | (w & UINT64_C(0x7f007f007f007f00)) >> 1;
    w = (w & UINT64_C(0x00003fff00003fff)) | (w & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (w & UINT64_C(0x000000000fffffff)) | (w & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* Read a number of up to eight bytes without a branch on its length. Returns false if the number is longer, or if
 * fewer than eight bytes remain. */
static inline bool cursor_within_eight(struct cursor *c, uint64_t *v)
{
    uint64_t bytes, ends;
    if (c->end - c->p < (ptrdiff_t)sizeof bytes)
        return false;
    memcpy(&bytes, c->p, sizeof bytes);
    bytes = le64toh(bytes);
    ends = ~bytes & UINT64_C(0x8080808080808080);
    if (ends == 0)
        return false;
    *v = join_sevens(bytes & (ends ^ (ends - 1)));
    c->p += __builtin_ctzll(ends) / 8 + 1;
    return true;
}

uint64_t cursor_uvarint_slow(struct cursor *c);

static inline uint64_t cursor_uvarint(struct cursor *c)
{
    if (c->p < c->end && c->p[0] < 0x80)
        return *c->p++;
    if (c->end - c->p >= 2 && c->p[1] < 0x80) {
        c->p += 2;
        return (c->p[-2] & 0x7f) | (uint64_t)c->p[-1] << 7;
    }
    return cursor_uvarint_slow(c);
}

/* The same for numbers whose lengths are unpredictable. */
static inline uint64_t cursor_uvarint_any(struct cursor *c)
{
    uint64_t v;
    return cursor_within_eight(c, &v) ? v : cursor_uvarint_slow(c);
}

static inline uint8_t cursor_byte(struct cursor *c)
{
    if (c->p < c->end)
        return *c->p++;
    c->bad = true;
    return 0;
}

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
