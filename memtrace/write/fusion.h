/* fusion.h - segments that always follow one another, which the writer joins to one.
 *
 * A superblock of a program is mostly followed by the same other one: of a trace's segments more than half
 * need no telling of their own. So the writer watches some of the stream, and where a segment was followed by
 * the same one all the time, it defines a *joined* segment that does what up to JOIN_PARTS of them do one
 * after the other. For a reader it is a segment like others; there are half as many to read, and to write.
 * Callers know nothing of it: their ids of segments are mapped here to those in the file.
 *
 * Only what stands in the stream without anything in between is joined. Whether the stream has all parts is
 * seen before anything is coded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_FUSION_H
#define MEMTRACE_WRITE_FUSION_H

#include "memtrace/format/codebook.h"
#include "memtrace/stream.h"

enum { JOIN_PARTS = 8, JOIN_WORDS = 14 };

/* No segment: what stands there is something else, or the stream ends. */
#define JOIN_NOTHING UINT32_MAX

/* Whether a joined segment begins with one: not seen often enough, to be tried when it comes next, there is
 * one, never. */
enum join_state { JOIN_UNKNOWN, JOIN_READY, JOIN_MADE, JOIN_NEVER };

/* A segment by the caller's id. */
struct joint {
    uint32_t segment, line; /* in the codebook */
    uint32_t joined;        /* line of the joined segment that begins with this one, if JOIN_MADE */
    uint32_t next;          /* what followed it, mostly, of the times it was watched: */
    uint16_t seen, broken;  /* all of them; when something else followed */
    uint8_t state;          /* enum join_state */
};

struct joiner {
    struct joint *of; /* by the caller's id */
    uint32_t count, capacity;
    uint32_t calls; /* to join_watches */
};

void join_free(struct joiner *j);

/* The caller's next segment, whose line has got its name; false when out of memory. */
bool join_add(struct joiner *j, uint32_t segment, uint32_t line);

/* Is this part of the stream to be watched? One in 32 is, at random. */
bool join_watches(struct joiner *j);

/* The caller's segment `next`, or JOIN_NOTHING, followed `id`. */
void join_watch(struct joiner *j, struct codebook *book, uint32_t id, uint32_t next);

/* The joined segment that is to begin with a JOIN_READY one: *s, whose accesses go to `accesses`, by the
 * parts' ids. How many parts; fewer than 2: none can be. */
unsigned join_plan(const struct joiner *j, const struct codebook *book, uint32_t id, struct mt_segment *s,
                   struct mt_access accesses[MT_SEGMENT_MOST], uint32_t parts[JOIN_PARTS]);

/* It was defined, as the codebook's last segment; or, `parts` fewer than 2, could not be. */
void join_made(struct joiner *j, struct codebook *book, uint32_t id, const uint32_t *parts, unsigned n);

/* Gather the words of a joined segment from a stream that begins with its first part; how many bytes of the
 * stream it takes, 0 if other segments follow there. */
static inline size_t join_gather(const struct word_state *first, const uint8_t *at, const uint8_t *end,
                                 uint64_t words[JOIN_WORDS])
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

/* Does a part of a joined segment begin with this word, which is not its first? */
static inline bool join_begins(const struct word_state *s)
{
    return s->words & NOT_FIRST && s->next[0];
}

#endif
