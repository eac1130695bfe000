/* fusion.c - which segments are joined; see fusion.h.
 *
 * What a joined segment consists of stands in the lines of its words, where others have nothing: next[0] of a
 * word with which a part begins is the part's id + 1, else 0; next[1] of the second is the number of parts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/fusion.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_SEEN = 48,    /* times before anything is joined */
    MOST_SEEN = 1024,   /* then half of it is forgotten */
    RARELY_BROKEN = 48, /* joined: once in so many times at most */
    OFTEN_BROKEN = 12   /* no longer: once in fewer */
};

void join_free(struct joiner *j)
{
    free(j->of);
    *j = (struct joiner){0};
}

bool join_add(struct joiner *j, uint32_t segment, uint32_t line)
{
    if (j->count == j->capacity) {
        uint32_t bigger = 2 * j->capacity + 256;
        struct joint *of = realloc(j->of, bigger * sizeof *of);
        if (!of)
            return false;
        j->of = of;
        j->capacity = bigger;
    }
    j->of[j->count++] = (struct joint){.segment = segment, .line = line, .next = JOIN_NOTHING};
    return true;
}

bool join_watches(struct joiner *j)
{
    return (j->calls++ * 0x9e3779b1u >> 27) == 0;
}

/* A segment has to be looked up by its id when it comes next, and not to be taken as guessed. */
static void hide(struct codebook *book, const struct joint *s)
{
    book->lines[s->line].name = NO_NAME;
}

static void show(struct codebook *book, uint32_t id, const struct joint *s)
{
    book->lines[s->line].name = id * 2;
}

static void count(struct joint *s, uint32_t next)
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

static bool is_stable(const struct joint *s)
{
    return s->next != JOIN_NOTHING && s->seen >= LEAST_SEEN && s->broken * RARELY_BROKEN <= s->seen;
}

static void part(struct codebook *book, uint32_t id, struct joint *s)
{
    hide(book, &(struct joint){.line = s->joined});
    show(book, id, s);
    s->state = JOIN_NEVER;
}

void join_watch(struct joiner *j, struct codebook *book, uint32_t id, uint32_t next)
{
    struct joint *s = &j->of[id];
    count(s, next);
    if (s->state == JOIN_UNKNOWN && is_stable(s)) {
        s->state = JOIN_READY;
        hide(book, s);
    } else if (s->state == JOIN_MADE && s->broken * OFTEN_BROKEN > s->seen) {
        part(book, id, s);
    }
}

/* Append what a part does; false if that is too much. */
static bool append(const struct codebook *book, const struct joint *part, struct mt_segment *s,
                   struct mt_access *accesses)
{
    const struct coded_segment *c = &book->segments[part->segment];
    if (s->count + c->count > MT_SEGMENT_MOST || s->words + c->words > JOIN_WORDS ||
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

unsigned join_plan(const struct joiner *j, const struct codebook *book, uint32_t id, struct mt_segment *s,
                   struct mt_access accesses[MT_SEGMENT_MOST], uint32_t parts[JOIN_PARTS])
{
    unsigned n = 0;
    *s = (struct mt_segment){.accesses = accesses};
    while (n < JOIN_PARTS && append(book, &j->of[id], s, accesses)) {
        parts[n++] = id;
        if (!is_stable(&j->of[id]))
            break;
        id = j->of[id].next;
    }
    return n;
}

void join_made(struct joiner *j, struct codebook *book, uint32_t id, const uint32_t *parts, unsigned n)
{
    struct joint *head = &j->of[id];
    if (n < 2) {
        head->state = JOIN_NEVER;
        show(book, id, head);
        return;
    }
    head->state = JOIN_MADE;
    head->joined = book->segments[book->segment_count - 1].line;
    struct word_state *word = &book->lines[head->joined];
    word->name = id * 2 + 1;
    word[1].next[1] = n;
    for (unsigned i = 1; i < n; i++) {
        word += book->segments[j->of[parts[i - 1]].segment].words;
        word->next[0] = parts[i] + 1;
    }
}
