/* stream.h - segments that ran, one behind the other in memory, as a recorder hands them to the writer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Of each segment there is its id, MT_STREAM_ID bytes, and then its words, of each the lowest MT_STREAM_WORD
 * bytes. That is enough: a word is an address of user space and a distance that fits 32 bits, so that it is
 * its lowest 48 bits with their sign. (An address that no memory can have, whose access faults, may so be
 * told as another.) Nothing is aligned; all is native-endian, which is little-endian. Who writes words one
 * after the other can write 8 bytes of each: the next one goes over what is too much.
 *
 * What is no segment is the caller's, and has 1 << 31 or more in the place of the id.
 */
#ifndef MEMTRACE_STREAM_H
#define MEMTRACE_STREAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    MT_STREAM_ID = 4,
    MT_STREAM_WORD = 6,
    MT_STREAM_BEYOND = 2 /* bytes behind the last word that are written */
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

/* The word at an address. Two bytes before it are loaded, too: those are the stream's as well. */
static inline uint64_t mt_stream_word(const uint8_t *at)
{
    return (uint64_t)((int64_t) * (const mt_stream_whole *)(at - 2) >> 16);
}

/* Write an id, or a word; where the next one comes. */
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
