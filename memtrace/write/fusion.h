/* fusion.h - fusion: the writer replaces segments that always follow one another by one segment.
 *
 * A superblock of a program is mostly followed by the same other one. More than half of the segments of a trace
 * therefore need not be stored one by one. The writer observes a sample of the stream. Where a segment was always
 * followed by the same one, it defines a *fused* segment that does what up to FUSION_PARTS segments do one after the
 * other. For readers a fused segment is like any other; it halves the number of segments to read and write. Callers of
 * the writer do not see fused segments: their segment ids are mapped to those of the file here.
 *
 * Only segments with nothing between them in the stream are fused. Whether the stream contains all parts is checked
 * before anything is coded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_FUSION_H
#define MEMTRACE_WRITE_FUSION_H

#include "memtrace/format/codebook.h"
#include "memtrace/stream.h"

enum { FUSION_PARTS = 8, FUSION_WORDS = 14 };

/* The value for "no segment follows": other data follows, or the stream ends. */
#define FUSION_NOTHING UINT32_MAX

/* State of a segment as the possible first part of a fused one. */
enum fusion_state {
    FUSION_UNKNOWN, /* not frequent enough yet */
    FUSION_READY,   /* to be fused when it runs next */
    FUSION_MADE,    /* a fused segment begins with it */
    FUSION_NEVER    /* was tried, and is not possible */
};

/* A segment, by the caller's id. */
struct fusible {
    uint32_t segment, line; /* in the codebook */
    uint32_t fused;         /* line of the fused segment that begins with this one, if FUSION_MADE */
    uint32_t next;          /* the segment that mostly followed it when it was observed */
    uint16_t seen, broken;  /* times observed; times that another segment followed */
    uint8_t state;          /* enum fusion_state */
};

struct fusion {
    struct fusible *of; /* by the caller's id */
    uint32_t count;
    size_t room;
    uint32_t calls; /* of fusion_samples */
};

void fusion_free(struct fusion *f);

/* Add the caller's next segment, whose line has its name already; false when out of memory. */
bool fusion_add(struct fusion *f, uint32_t segment, uint32_t line);

/* Is this part of the stream to be observed? One in 32 is, at random. */
bool fusion_samples(struct fusion *f);

/* Observe that the caller's segment `next`, or FUSION_NOTHING, followed `id`. */
void fusion_observe(struct fusion *f, struct codebook *book, uint32_t id, uint32_t next);

/* Plan the fused segment that begins with `id`, which is FUSION_READY: fills in *s, whose accesses are in `accesses`,
 * and the ids of the parts. Returns the number of parts; below 2, there can be none. */
unsigned fusion_plan(const struct fusion *f, const struct codebook *book, uint32_t id, struct mt_segment *s,
                     struct mt_access accesses[MT_SEGMENT_MOST], uint32_t parts[FUSION_PARTS]);

/* Record the outcome of fusion_plan: the fused segment is the last one of the codebook or, if n < 2, does not exist. */
void fusion_made(struct fusion *f, struct codebook *book, uint32_t id, const uint32_t *parts, unsigned n);

/* Gather the words of a fused segment from a stream that begins with its first part. Returns the bytes of the stream
 * that it covers; 0 if other segments follow there. */
static inline size_t fusion_gather(const struct word_state *first, const uint8_t *at, const uint8_t *end,
                                   uint64_t words[FUSION_WORDS])
{
    const uint8_t *p = at + MT_STREAM_ID;
    const uint32_t n = first->words;
    if ((size_t)n * MT_STREAM_WORD + (size_t)first[1].next[1] * MT_STREAM_ID > (size_t)(end - at))
        return 0;
    words[0] = mt_stream_word(p);
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t part = first[i].next[0];
        p += MT_STREAM_WORD;
        if (part) {
            if (mt_stream_id(p) != part - 1)
                return 0;
            p += MT_STREAM_ID;
        }
        words[i] = mt_stream_word(p);
    }
    return (size_t)(p + MT_STREAM_WORD - at);
}

/* Does a part of a fused segment begin with this word, which is not its first? */
static inline bool fusion_begins(const struct word_state *s)
{
    return s->words & NOT_FIRST && s->next[0];
}

#endif
