/* varint.h - the two ways numbers are written: uvarint and zigzag, and bounded reading of them.
 *
 * A uvarint is LEB128: seven bits a byte, low bits first, the top bit says that more follow; at most
 * ten bytes. Zigzag folds the sign into bit 0, so that small negative numbers stay short. A cursor
 * never reads past its end: it goes bad, stays bad, and gives zeros.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_VARINT_H
#define MEMTRACE_VARINT_H

#include <stdbool.h>
#include <stdint.h>

#define UVARINT_MAX_BYTES 10

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

/* A place in a stream of one chunk. addr, ip and time are what delta-coded fields refer to. */
struct cursor {
    const uint8_t *p, *end;
    uint64_t addr, ip, time;
    bool bad;
};

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

static inline uint8_t cursor_byte(struct cursor *c)
{
    if (c->p < c->end)
        return *c->p++;
    c->bad = true;
    return 0;
}

#endif
