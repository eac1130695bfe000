/* skip.c - segments whose accesses are not recorded: what allocators do inside, and what is not
 * wanted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/stream.h"
#include "memtrace/write/writer_impl.h"

/* A value that the compiler knows nothing of. */
static inline const uint8_t *opaque(const uint8_t *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* Behind a segment. Where the next one begins would be known only when this one's length has been loaded; as
 * most are short, the processor guesses a branch for the length instead and goes on. */
static inline const uint8_t *behind(const uint8_t *at, uint32_t words)
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
        at = behind(at, s->words);
    }
    w->totals.dropped += writer_failed(w) ? accesses : 0;
    *instructions += sum;
    return (size_t)(at - stream);
}
