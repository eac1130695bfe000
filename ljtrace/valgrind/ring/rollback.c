/* rollback.c - remove the accesses of a watched allocator from the ring when it returns. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/ring/rollback.h"
#include "ljtrace/valgrind/ring/accesses.h"
#include "ljtrace/valgrind/ring/records.h"
#include "memtrace/stream.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_mallocfree.h"

enum { FIRST_CAPACITY = 4096 };

/* The number of words and instructions of a segment, by its number. */
struct shape {
    UChar words, instructions;
};

static struct shape *s_shape;
static UInt s_count, s_capacity;
static UInt s_pending; /* calls that have not ended and may be rolled back */

static void make_room(void)
{
    if (s_count < s_capacity)
        return;
    s_capacity = s_capacity ? 2 * s_capacity : FIRST_CAPACITY;
    s_shape = VG_(realloc)("ljtrace.shapes", s_shape, s_capacity * sizeof *s_shape);
}

void lt_rollback_segment(UInt words, UInt instructions)
{
    tl_assert(words <= 255 && instructions <= 255);
    make_room();
    s_shape[s_count++] = (struct shape){(UChar)words, (UChar)instructions};
}

void lt_rollback_enter(struct lt_ring_place *place)
{
    place->at = 0;
    if (!lt_accesses_recorded())
        return;
    *place = lt_ring_here();
    if (s_pending++ == 0)
        lt_ring->held = place->at;
    RING_PUT(enter);
}

/* A call has ended. If it was the only one, the records in the ring are final. */
static void release(void)
{
    if (s_pending && --s_pending == 0)
        lt_ring->held = 0;
}

/* Return the address after a segment. Small numbers of words are distinguished by branches. An allocator
 * repeats itself, so the processor predicts them, and does not have to wait for each segment to find the
 * next. This takes a quarter of the time of a plain sum. */
static inline const UChar *after_segment(const UChar *at, UInt words)
{
#define IF_WORDS(n)                                                                                          \
    if (words == (n)) {                                                                                      \
        at += mt_stream_bytes(n);                                                                            \
        __asm__("" : "+r"(at)); /* or the compiler would make one sum of all of them */                      \
        return at;                                                                                           \
    }
    IF_WORDS(1)
    IF_WORDS(2)
    IF_WORDS(3)
    IF_WORDS(4)
#undef IF_WORDS
    return at + mt_stream_bytes(words);
}

/* If there are only segments between two addresses in the ring, return true and the sum of their
 * instructions. */
static Bool sum_segments(const UChar *at, const UChar *end, ULong *instructions)
{
    ULong sum = 0;
    while (at < end && mt_stream_id(at) < s_count) {
        const struct shape *shape = &s_shape[mt_stream_id(at)];
        sum += shape->instructions;
        at = after_segment(at, shape->words);
    }
    *instructions = sum;
    return at == end;
}

void lt_rollback_return(const struct lt_ring_place *place)
{
    ULong instructions;
    if (!place->at)
        return;
    const UChar *entered = lt_ring_at(place);
    if (entered && sum_segments(entered + sizeof(ULong), (const UChar *)lt_ring->cursor, &instructions)) {
        lt_ring->instructions += instructions;
        lt_ring_rewind(place);
    } else
        RING_PUT(leave);
    release();
}

void lt_rollback_drop(const struct lt_ring_place *place)
{
    if (!place->at)
        return;
    RING_PUT(leave);
    release();
}
