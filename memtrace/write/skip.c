/* skip.c - passes over segments whose accesses are not recorded: those of allocators themselves, and those that the
 * user excluded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/stream.h"
#include "memtrace/write/writer_impl.h"

/* Return p, hidden from the optimizer, so that it keeps the branches of next_segment. */
static inline const uint8_t *opaque(const uint8_t *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* The address of the next segment. Computing it from the length would have to wait until the length is loaded.
 * Most segments are short, so the processor predicts a branch on the length and continues at once. */
static inline const uint8_t *next_segment(const uint8_t *at, uint32_t words)
{
    switch (words) {
    case 1:
        return opaque(at + mt_stream_bytes(1));
    case 2:
        return opaque(at + mt_stream_bytes(2));
    case 3:
        return opaque(at + mt_stream_bytes(3));
    case 4:
        return opaque(at + mt_stream_bytes(4));
    default:
        return at + mt_stream_bytes(words);
    }
}

size_t mt_writer_skip(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions)
{
    const struct codebook *book = &w->enc.book;
    const struct fusion *callers = &w->enc.fusion;
    const uint8_t *at = stream, *end = stream + n;
    uint64_t sum = 0, accesses = 0;
    while (end - at >= MT_STREAM_ID && mt_stream_id(at) < callers->count) {
        const struct coded_segment *s = &book->segments[callers->of[mt_stream_id(at)].segment];
        __builtin_prefetch(at + PREFETCH_BYTES);
        if (mt_stream_bytes(s->words) > (size_t)(end - at))
            break;
        accesses += s->count;
        sum += s->instructions;
        at = next_segment(at, s->words);
    }
    w->totals.dropped += writer_failed(w) ? accesses : 0;
    *instructions += sum;
    return (size_t)(at - stream);
}
