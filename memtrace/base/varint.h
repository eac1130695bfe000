/* varint.h - the two ways numbers are written: uvarint and zigzag, and bounded reading of them.
 *
 * A uvarint is LEB128: seven bits a byte, low bits first, the top bit says that more follow; at most
 * ten bytes. Zigzag folds the sign into bit 0, so that small negative numbers stay short. A cursor
 * never reads past its end: it goes bad, stays bad, and gives zeros.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_VARINT_H
#define MEMTRACE_BASE_VARINT_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UVARINT_MAX_BYTES 10
#define UVARINT_BEYOND 7 /* bytes behind a number that uvarint_write_any may write, too */

static inline uint64_t zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* Write at p, which must have room for UVARINT_MAX_BYTES; returns the byte after. */
static inline uint8_t *uvarint_write(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)v | 0x80;
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* The low 56 bits, seven in each byte: fours are parted, then pairs, then neighbours. */
static inline uint64_t part_sevens(uint64_t v)
{
    v = (v & UINT64_C(0x000000000fffffff)) | (v & UINT64_C(0x00fffffff0000000)) << 4;
    v = (v & UINT64_C(0x00003fff00003fff)) | (v & UINT64_C(0x0fffc0000fffc000)) << 2;
    return (v & UINT64_C(0x007f007f007f007f)) | (v & UINT64_C(0x3f803f803f803f80)) << 1;
}

/* The same, where no one can foresee how long numbers are: without a branch that depends on it, for up to
 * eight bytes. Needs room for UVARINT_BEYOND bytes more. */
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

/* A place in a stream of one chunk. addr, ip and time are what delta-coded fields refer to. */
struct cursor {
    const uint8_t *p, *end;
    uint64_t addr, ip, time;
    bool bad;
};

/* The seven low bits of each of eight bytes, side by side: neighbours are joined, then pairs, then fours. */
static inline uint64_t join_sevens(uint64_t w)
{
    w = (w & UINT64_C(0x007f007f007f007f)) | (w & UINT64_C(0x7f007f007f007f00)) >> 1;
    w = (w & UINT64_C(0x00003fff00003fff)) | (w & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (w & UINT64_C(0x000000000fffffff)) | (w & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* A number of up to eight bytes, without a branch that depends on how many; false if it is none, or if there
 * are not eight bytes. */
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

/* The same, where no one can foresee how long numbers are. */
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

#endif
