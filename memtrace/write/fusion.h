/* fusion.h - segments that always follow one another, which the writer fuses into one.
 *
 * A superblock of a program is mostly followed by the same other one: of a trace's segments more than half
 * need no telling of their own. So the writer watches some of the stream, and where a segment was followed by
 * the same one all the time, it defines a *fused* segment that does what up to FUSION_PARTS of them do one
 * after the other. For a reader it is a segment like others; there are half as many to read, and to write.
 * Callers know nothing of it: their ids of segments are mapped here to those in the file.
 *
 * Only what stands in the stream without anything in between is fused. Whether the stream has all parts is
 * seen before anything is coded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_FUSION_H
#define MEMTRACE_WRITE_FUSION_H

#include "memtrace/format/codebook.h"
#include "memtrace/stream.h"

enum { FUSION_PARTS = 8, FUSION_WORDS = 14 };

/* No segment: what stands there is something else, or the stream ends. */
#define FUSION_NOTHING UINT32_MAX

/* Whether a fused segment begins with one: not seen often enough, to be tried when it comes next, there is
 * one, never. */
enum fusion_state { FUSION_UNKNOWN, FUSION_READY, FUSION_MADE, FUSION_NEVER };

/* A segment by the caller's id. */
struct fusible {
    uint32_t segment, line; /* in the codebook */
    uint32_t fused;         /* line of the fused segment that begins with this one, if FUSION_MADE */
    uint32_t next;          /* what followed it, mostly, of the times it was watched: */
    uint16_t seen, broken;  /* all of them; when something else followed */
    uint8_t state;          /* enum fusion_state */
};

struct fusion {
    struct fusible *of; /* by the caller's id */
    uint32_t count;
    size_t room;
    uint32_t calls; /* to fusion_samples */
};

void fusion_free(struct fusion *f);

/* The caller's next segment, whose line has got its name; false when out of memory. */
bool fusion_add(struct fusion *f, uint32_t segment, uint32_t line);

/* Is this part of the stream to be watched? One in 32 is, at random. */
bool fusion_samples(struct fusion *f);

/* The caller's segment `next`, or FUSION_NOTHING, followed `id`. */
void fusion_observe(struct fusion *f, struct codebook *book, uint32_t id, uint32_t next);

/* The fused segment that is to begin with a FUSION_READY one: *s, whose accesses go to `accesses`, by the
 * parts' ids. How many parts; fewer than 2: none can be. */
unsigned fusion_plan(const struct fusion *f, const struct codebook *book, uint32_t id, struct mt_segment *s,
                     struct mt_access accesses[MT_SEGMENT_MOST], uint32_t parts[FUSION_PARTS]);

/* It was defined, as the codebook's last segment; or, `parts` fewer than 2, could not be. */
void fusion_made(struct fusion *f, struct codebook *book, uint32_t id, const uint32_t *parts, unsigned n);

/* Gather the words of a fused segment from a stream that begins with its first part; how many bytes of the
 * stream it takes, 0 if other segments follow there. */
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
