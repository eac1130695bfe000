/* fusion.c - chooses which segments are fused, and keeps their parts.
 *
 * The parts of a fused segment are stored in fields of its words' lines that are otherwise used only in the first
 * line of a segment: next[0] of a word with which a part begins is the id of the part + 1, otherwise 0; next[1] of
 * the second word is the number of parts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/encoder.h"
#include "memtrace/base/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_SEEN = 48,    /* minimum number of observations before a segment is fused */
    MOST_SEEN = 1024,   /* number of observations at which both counters are halved */
    RARELY_BROKEN = 48, /* fuse if at most one in so many observations had another successor */
    OFTEN_BROKEN = 12   /* split again if more than one in so many observations has */
};

void fusion_free(struct fusion *f)
{
    free(f->of);
    *f = (struct fusion){0};
}

bool fusion_add(struct fusion *f, uint32_t segment, uint32_t line)
{
    if (!array_reserve(&f->of, &f->room, f->count + 1u, sizeof *f->of))
        return false;
    f->of[f->count++] = (struct fusible){.segment = segment, .line = line, .next = FUSION_NOTHING};
    return true;
}

bool fusion_samples(struct fusion *f)
{
    return (f->calls++ * 0x9e3779b1u >> 27) == 0;
}

/* Make a segment miss the comparison with the predicted name, so that take_other handles it. */
static void hide(struct codebook *book, const struct fusible *s)
{
    book->lines[s->line].name = NO_NAME;
}

static void show(struct codebook *book, uint32_t id, const struct fusible *s)
{
    book->lines[s->line].name = id * 2;
}

static void count(struct fusible *s, uint32_t next)
{
    s->broken += s->next != next;
    s->seen++;
    if (s->broken * 2 > s->seen) {
        s->next = next;
        s->seen = 1;
        s->broken = 0;
    }
    if (s->seen == MOST_SEEN) {
        s->seen /= 2;
        s->broken /= 2;
    }
}

static bool is_stable(const struct fusible *s)
{
    return s->next != FUSION_NOTHING && s->seen >= LEAST_SEEN && s->broken * RARELY_BROKEN <= s->seen;
}

static void part(struct codebook *book, uint32_t id, struct fusible *s)
{
    hide(book, &(struct fusible){.line = s->fused});
    show(book, id, s);
    s->state = FUSION_NEVER;
}

void fusion_observe(struct fusion *f, struct codebook *book, uint32_t id, uint32_t next)
{
    struct fusible *s = &f->of[id];
    count(s, next);
    if (s->state == FUSION_UNKNOWN && is_stable(s)) {
        s->state = FUSION_READY;
        hide(book, s);
    } else if (s->state == FUSION_MADE && s->broken * OFTEN_BROKEN > s->seen) {
        part(book, id, s);
    }
}

/* Append the accesses of a part to *s; false if a limit would be exceeded. */
static bool append(const struct codebook *book, const struct fusible *part, struct mt_segment *s,
                   struct mt_access *accesses)
{
    const struct coded_segment *c = &book->segments[part->segment];
    if (s->count + c->count > MT_SEGMENT_MOST || s->words + c->words > FUSION_WORDS ||
        s->instructions + c->instructions > MT_SEGMENT_INSTRUCTIONS)
        return false;
    for (uint32_t i = 0; i < c->count; i++) {
        accesses[s->count + i] = book->accesses[c->first + i];
        accesses[s->count + i].word += s->words;
    }
    s->count += c->count;
    s->words += c->words;
    s->instructions += c->instructions;
    return true;
}

unsigned fusion_plan(const struct fusion *f, const struct codebook *book, uint32_t id, struct mt_segment *s,
                     struct mt_access accesses[MT_SEGMENT_MOST], uint32_t parts[FUSION_PARTS])
{
    unsigned n = 0;
    *s = (struct mt_segment){.accesses = accesses};
    while (n < FUSION_PARTS && append(book, &f->of[id], s, accesses)) {
        parts[n++] = id;
        if (!is_stable(&f->of[id]))
            break;
        id = f->of[id].next;
    }
    return n;
}

void fusion_made(struct fusion *f, struct codebook *book, uint32_t id, const uint32_t *parts, unsigned n)
{
    struct fusible *head = &f->of[id];
    if (n < 2) {
        head->state = FUSION_NEVER;
        show(book, id, head);
        return;
    }
    head->state = FUSION_MADE;
    head->fused = book->segments[book->segment_count - 1].line;
    struct word_state *word = &book->lines[head->fused];
    word->name = id * 2 + 1;
    word[1].next[1] = n;
    for (unsigned i = 1; i < n; i++) {
        word += book->segments[f->of[parts[i - 1]].segment].words;
        word->next[0] = parts[i] + 1;
    }
}
