/* decode_packed.c - segments that are handed on packed; see decode_packed.h.
 *
 * Nearly all segments of a trace go through the loop of decoder_pack_run, one to three words each: what the
 * loop changes stands in local variables, for the compiler cannot know that writing places leaves it alone.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "decode_packed.h"

/* What changes from segment to segment. */
struct packing {
    struct mt_step *step;
    struct mt_place *places;
    uint32_t line, next; /* the segment at hand; of struct recent */
    uint32_t accesses;   /* that the segment makes */
    int64_t whole;       /* negative: a word does not lie whole in its block */
    bool wrong;          /* a word lies where no block ever was */
};

/* Do `extent` bytes from `addr` lie within the block, and one at least? Negative if they do not: without
 * branches, and for many to be joined by `|`. Behind half the address space in a block it says no, too, and
 * of an extent above INT32_MAX, which no block holds, not even one of gigabytes. */
static inline int64_t lies_whole(const struct live_block *b, uint64_t addr, uint32_t extent)
{
    const uint64_t offset = addr - b->base, room = b->size - offset;
    const uint64_t bytes = (uint64_t)(int32_t)extent;
    return (int64_t)(offset | room | (room - bytes) | bytes);
}

/* How many accesses a segment makes if each of its words lies in one block, or in none; else NOT_WHOLE. */
#define NOT_WHOLE UINT32_MAX
static uint32_t whole_accesses(const struct decoder *d, const struct mt_pattern *words,
                               const struct mt_place *places)
{
    uint32_t count = 0;
    for (uint32_t w = 0; w < words->words; w++) {
        if (places[w].slot == MT_NO_SLOT)
            continue;
        if (lies_whole(&d->blocks[places[w].slot], places[w].addr, words[w].extent) < 0)
            return NOT_WHOLE;
        count += words[w].own;
    }
    return count;
}

/* Field by field: else they are joined first. */
static inline void put_step(struct mt_step *step, uint64_t time, uint32_t line, uint16_t thread,
                            uint32_t accesses)
{
    step->time = time;
    step->pattern = line;
    step->thread = thread;
    step->count = (uint16_t)accesses;
}

static bool know_patterns(struct decoder *d)
{
    if (d->packer->n_patterns >= d->book.line_count || packer_learn(d->packer, &d->book))
        return true;
    d->wrong = "out of memory for patterns";
    return false;
}

static size_t unpack(struct decoder *d, struct mt_event *ev, uint32_t line, const struct mt_place *places)
{
    size_t made = decoder_unpacked(d, ev, line, places);
    packer_events(d->packer, made);
    return made;
}

static bool too_many(struct decoder *d, uint32_t accesses)
{
    if (accesses > d->left)
        d->wrong = "more accesses than the chunk has events";
    return accesses > d->left;
}

size_t decoder_pack(struct decoder *d, struct mt_event *ev, uint32_t line)
{
    struct packer *p = d->packer;
    if (!know_patterns(d))
        return 0;
    const struct mt_pattern *pattern = &p->patterns[line];
    uint32_t count = whole_accesses(d, pattern, packer_places(p));
    if (count == NOT_WHOLE)
        return unpack(d, ev, line, packer_places(p));
    if (count == 0 || too_many(d, count))
        return 0;
    d->left -= count;
    put_step(&p->steps[p->n_steps++], d->streams[STREAM_RARE].time, line, d->thread, count);
    p->n_places += pattern->words;
    p->total += count;
    return 0;
}

/* A word of the segment, as guessed. */
static inline void pack_word(struct packing *k, struct decoder *d, const struct live_block *blocks,
                             struct word_state *s, const struct mt_pattern *pattern, struct mt_place *place)
{
    if (s->mode & MODE_FOREIGN) {
        place->slot = MT_NO_SLOT;
        k->accesses -= pattern->own;
        return;
    }
    const struct guess g = guess_word_at(s, &d->recent, k->next);
    if (__builtin_expect(g.slot >= d->block_count, 0)) {
        k->wrong = true;
        return;
    }
    k->whole |= lies_whole(&blocks[g.slot], g.addr, pattern->extent);
    learn_own(s, g.addr, g.slot);
    recent_put(&d->recent, k->next++, g.addr, g.slot);
    place->addr = g.addr;
    place->slot = g.slot;
}

/* The next segment, as guessed, without its step. */
static inline void pack_segment(struct packing *k, struct decoder *d, struct word_state *lines,
                                const struct live_block *blocks, const struct mt_pattern *patterns)
{
    uint32_t line = lines[k->line].next[0];
    struct word_state *s = &lines[line];
    const uint32_t words = s->words;
    k->line = line;
    k->accesses = patterns[line].count;
    pack_word(k, d, blocks, s, &patterns[line], k->places);
    for (uint32_t i = 1; i < words; i++)
        pack_word(k, d, blocks, &s[i], &patterns[line + i], &k->places[i]);
}

/* The segment at which a run stopped early; how many events were made of it. */
static size_t end_early(struct decoder *d, const struct packing *k, struct mt_event *ev)
{
    if (k->line == NO_LINE)
        d->wrong = "a segment is guessed that has not been seen";
    else if (k->wrong)
        d->wrong = "an access lies in no live block";
    else if (k->whole >= 0)
        d->wrong = "more accesses than the chunk has events";
    if (d->wrong)
        return 0;
    d->run--;
    return unpack(d, ev, k->line, k->places);
}

/* Tell the others how far a run has come: `segments`, `left` events of the chunk. */
static void end_run(struct decoder *d, const struct packing *k, uint64_t segments, uint32_t left)
{
    struct packer *p = d->packer;
    p->n_steps = (uint32_t)(k->step - p->steps);
    p->n_places = (uint32_t)(k->places - p->places);
    p->total += d->left - left;
    d->left = left;
    d->run -= segments;
    d->recent.next = k->next;
    d->prev_line = k->line;
}

static inline void tell_segment(struct packing *k, const struct mt_pattern *patterns, uint64_t time,
                                uint16_t thread)
{
    put_step(k->step++, time, k->line, thread, k->accesses);
    k->places += patterns[k->line].words;
}

size_t decoder_pack_run(struct decoder *d, struct mt_event *ev)
{
    struct packer *p = d->packer;
    if (!know_patterns(d))
        return 0;
    const struct mt_pattern *patterns = p->patterns;
    const uint64_t room = PACKED_STEPS - p->n_steps, run = d->run < room ? d->run : room,
                   time = d->streams[STREAM_RARE].time;
    struct packing k = {&p->steps[p->n_steps], packer_places(p), d->prev_line, d->recent.next, 0, 0, false};
    uint32_t left = d->left;
    uint64_t i;
    for (i = 0; i < run; i++) {
        pack_segment(&k, d, d->book.lines, d->blocks, patterns);
        if (__builtin_expect((k.whole < 0) | k.wrong, 0) || __builtin_expect(k.accesses > left, 0) ||
            __builtin_expect(k.line == NO_LINE, 0))
            break;
        left -= k.accesses;
        if (k.accesses)
            tell_segment(&k, patterns, time, d->thread);
    }
    end_run(d, &k, i, left);
    return i < run ? end_early(d, &k, ev) : 0;
}
