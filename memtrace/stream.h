/* stream.h - the form in which a recorder passes executed segments to the writer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A stream is a sequence of segments. Each has its id (MT_STREAM_ID bytes), then the lowest MT_STREAM_WORD bytes of
 * each of its words. These suffice, because a word is an address in user space plus a distance of 32 bits: it is the
 * sign extension of its lowest 48 bits. (An access to an address outside of that range faults. It may be recorded with
 * another address.) Nothing is aligned. Numbers are little-endian. A writer may store 8 bytes for each word, because
 * the next word overwrites the surplus.
 *
 * The caller may put other data between segments. They begin with a number of 1 << 31 or more instead of an id.
 */
#ifndef MEMTRACE_STREAM_H
#define MEMTRACE_STREAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    MT_STREAM_ID = 4,
    MT_STREAM_WORD = 6,
    MT_STREAM_BEYOND = 2 /* bytes after the last word that may be written */
};

typedef uint32_t mt_stream_half __attribute__((aligned(1), may_alias));
typedef uint64_t mt_stream_whole __attribute__((aligned(1), may_alias));

/* Bytes of a segment with so many words. */
static inline size_t mt_stream_bytes(uint32_t words)
{
    return MT_STREAM_ID + (size_t)words * MT_STREAM_WORD;
}

static inline uint32_t mt_stream_id(const uint8_t *at)
{
    return *(const mt_stream_half *)at;
}

/* The word at an address. Also loads the two bytes before it, which always belong to the stream. */
static inline uint64_t mt_stream_word(const uint8_t *at)
{
    return (uint64_t)((int64_t) * (const mt_stream_whole *)(at - 2) >> 16);
}

/* Write an id, or a word. Both return the address of what follows. */
static inline uint8_t *mt_stream_put_id(uint8_t *at, uint32_t id)
{
    *(mt_stream_half *)at = id;
    return at + MT_STREAM_ID;
}
static inline uint8_t *mt_stream_put_word(uint8_t *at, uint64_t word)
{
    *(mt_stream_whole *)at = word;
    return at + MT_STREAM_WORD;
}

#endif
