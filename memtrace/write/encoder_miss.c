/* encoder_miss.c - encodes segments that were not predicted correctly.
 *
 * A word is one base address of a segment, with the accesses at constant distances from it. If all its accesses lie
 * in one block, or some lie in one block and the others in none, the word is encoded as that block and the offset of
 * the lowest access. If they lie in several blocks, or touch freed memory, each access is encoded on its own after
 * the segment.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/encoder_miss.h"

#include <string.h>

static inline const struct coded_segment *missed_segment(const struct encoder *e, const struct missed *m)
{
    return &e->book.segments[e->book.names[m->line] >> 1];
}

/* The place that was found for a word. */
struct found {
    uint64_t lowest;
    uint32_t slot; /* NO_SLOT = no block */
    bool part;     /* some of its accesses are outside the block and in no other */
    bool alone;    /* its accesses are to be encoded one by one, after the segment */
};

/* Reserve room for this number of tokens, words and accesses in all streams; false when out of memory. */
static bool reserve(struct encoder *e, uint32_t needed)
{
    bool ok = true;
    if (e->room >= needed)
        return true;
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        if (i != STREAM_RARE)
            ok &= buffer_reserve(&e->streams[i], (needed + 2 * ENCODE_BATCH) * (UVARINT_MAX_BYTES + 1));
    e->room = ok ? needed + 2 * ENCODE_BATCH : 0;
    return ok;
}

/* Write the token that ends a run of correct predictions. The stream has room for it. */
static inline void write_token(struct encoder *e, unsigned misses)
{
    uint8_t **p = &e->streams[STREAM_TOKENS].p;
    if (e->run < RUN_LONG) {
        *(*p)++ = (uint8_t)(e->run << 3 | misses);
    } else {
        *(*p)++ = (uint8_t)(RUN_LONG << 3 | misses);
        *p = uvarint_write(*p, e->run - RUN_LONG);
    }
    e->run = 0;
}

void put_token(struct encoder *e, unsigned misses)
{
    if (!reserve(e, 1))
        return;
    e->room--;
    write_token(e, misses);
}

static void put_number(struct encoder *e, unsigned stream, uint64_t v)
{
    e->streams[stream].p = uvarint_write(e->streams[stream].p, v);
}

/* -- foreign pages -- */

void check_foreign(struct encoder *e, const struct surroundings *in)
{
    uint64_t made = in->live->pages_made + in->dead->map.pages_made;
    if (made == e->pages_made)
        return;
    memset(e->foreign, 0, sizeof e->foreign);
    e->pages_made = made;
}

/* Add the page of an address to the cache of pages without blocks; false if a block touches it. */
static bool note_foreign(struct encoder *e, const struct surroundings *in, uint64_t addr)
{
    if (foreign_page(e->foreign, addr))
        return true;
    if (!blockmap_empty_page(in->live, addr) || !blockmap_empty_page(&in->dead->map, addr))
        return false;
    e->foreign[addr >> PAGE_BITS & (FOREIGN_PAGES - 1)] = (addr >> PAGE_BITS) + 1;
    return true;
}

/* -- encoding words and segments -- */

/* Write the id of the segment that follows, and update the prediction. */
static void code_name(struct encoder *e, uint32_t line)
{
    struct word_state *prev = &e->book.lines[e->prev_line];
    put_number(e, STREAM_SEGMENTS, line == prev->next[1] ? 0 : (uint64_t)e->book.names[line] + 1);
    learn_segment(prev, line);
}

/* Is this guess the place that was found, with all accesses of the word in the block? */
static bool is_right(struct guess g, const struct found *f)
{
    return g.addr == f->lowest && g.slot == f->slot && !f->part;
}

/* The number of the recent word from which the word's distance leads to the place found, counted backwards; 0 =
 * none. */
static uint32_t find_back(const struct encoder *e, const struct word_state *s, const struct found *f)
{
    uint64_t from = f->lowest - s->back;
    uint32_t same = recent_equal(&e->recent, e->recent.low, (uint32_t)from);
    for (; same && !f->part; same &= ~(1u << (RECENT - recent_latest(same)))) {
        uint32_t i = recent_at(&e->recent, recent_latest(same));
        if (e->recent.addr[i] == from && e->recent.slot[i] == f->slot)
            return recent_latest(same);
    }
    return 0;
}

static enum word_code code_place(struct encoder *e, const struct surroundings *in, const struct word_state *s,
                                 const struct found *f)
{
    bool inside = guess_word(s, &e->recent).slot == f->slot;
    if (!inside)
        put_number(e, STREAM_SLOTS, f->slot);
    put_number(e, STREAM_OFFSETS, f->lowest - in->live->blocks[f->slot].base);
    return inside ? WORD_INSIDE : WORD_BLOCK;
}

/* Encode a word that lies in a block but was not predicted. */
static enum word_code code_word(struct encoder *e, const struct surroundings *in, struct word_state *s,
                                const struct found *f)
{
    uint32_t age = 0;
    enum word_code code = WORD_AGAIN;
    if (!(s->mode & MODE_FOREIGN) || !is_right(guess_word(s, &e->recent), f)) {
        if (is_right(guess_other(s, &e->recent), f)) {
            code = WORD_OTHER;
        } else if ((age = find_back(e, s, f))) {
            code = WORD_BACK;
            put_number(e, STREAM_AGES, age);
        } else {
            code = code_place(e, in, s, f);
        }
    }
    learn_miss(s, &e->recent, code, age, f->lowest, f->slot);
    learn_word(s, &e->recent, f->lowest, f->slot);
    return code;
}

/* Finish a segment whose words are encoded. */
static void end_segment(struct encoder *e, uint32_t line, uint64_t codes)
{
    unsigned misses = codes ? MISS_WORDS : 0;
    if (line != e->book.lines[e->prev_line].next[0]) {
        code_name(e, line);
        misses |= MISS_SEGMENT;
    }
    if (codes)
        put_number(e, STREAM_CODES, codes);
    if (misses)
        write_token(e, misses);
    else
        e->run++;
    e->prev_line = line;
}

/* Initialize the state of a segment in this chunk, before anything is encoded against it. */
static void warm(struct encoder *e, struct word_state *first)
{
    first->epoch &= ~QUIET;
    if (first->epoch != e->epoch)
        segment_reset(first, e->epoch);
}

/* -- single accesses -- */

/* The live block that an access outside all blocks is beside, or NO_SLOT. */
static uint32_t find_beside(const struct encoder *e, const struct surroundings *in, uint32_t site,
                            uint64_t addr)
{
    return blockmap_beside(in->live, addr, e->book.sites[site].size, in->beside, 0);
}

/* Encode an access outside live blocks. It is to freed memory, beside a block, or foreign. */
static void code_outside(struct encoder *e, const struct surroundings *in, uint32_t site, uint64_t addr)
{
    const bool foreign = foreign_page(e->foreign, addr);
    const struct block *b = foreign ? NULL : freed_find(in->dead, addr);
    const uint32_t slot = foreign || b ? NO_SLOT : find_beside(e, in, site, addr);
    const struct coded_site *s = &e->book.sites[site];
    if (!b && slot == NO_SLOT) {
        in->totals->foreign++;
        note_foreign(e, in, addr);
        return;
    }
    if (b)
        put_freed(encoder_rare(e), &(struct rec_freed){in->totals->instructions, site, s->kind, addr, s->size,
                                                       b->handle, addr - freed_base(in->dead, b), b->heap});
    else
        put_beside(encoder_rare(e),
                   &(struct rec_beside){in->totals->instructions, site, s->kind, addr, s->size, slot});
    in->totals->freed++;
    e->count++;
}

/* Encode a single access as a segment of its own. */
static void code_single(struct encoder *e, const struct surroundings *in, uint32_t line, uint64_t addr,
                        uint32_t slot)
{
    struct word_state *s = &e->book.lines[line];
    const struct found f = {.lowest = addr, .slot = slot};
    uint64_t code = WORD_GUESSED;
    warm(e, s);
    if (is_right(guess_word(s, &e->recent), &f))
        learn_word(s, &e->recent, addr, slot);
    else
        code = code_word(e, in, s, &f);
    end_segment(e, line, code);
}

void code_access(struct encoder *e, const struct surroundings *in, uint32_t site, uint64_t addr)
{
    if (site - 1 >= e->book.site_count - 1 || !reserve(e, 4)) {
        in->totals->dropped++;
        return;
    }
    uint32_t slot = foreign_page(e->foreign, addr) ? NO_SLOT : blockmap_find(in->live, addr);
    uint32_t line = slot == NO_SLOT ? NO_LINE : codebook_site_line(&e->book, site);
    if (line == NO_LINE) {
        code_outside(e, in, site, addr);
        return;
    }
    e->room -= 4;
    code_single(e, in, line, addr, slot);
    in->totals->events[e->book.sites[site].kind]++;
    e->count++;
}

/* -- finding the block of a word -- */

/* Find the block of a word whose accesses do not all lie in the same block. */
static void find_part(const struct encoder *e, const struct surroundings *in, const struct coded_segment *seg,
                      uint32_t word, uint64_t value, struct found *f)
{
    uint32_t inside = NO_SLOT;
    for (uint32_t i = seg->first; i < seg->first + seg->count; i++) {
        const struct mt_access *a = &e->book.accesses[i];
        if (a->word != word)
            continue;
        uint64_t addr = value + (uint64_t)(int64_t)a->distance;
        uint32_t slot = blockmap_find(in->live, addr);
        f->part |= slot == NO_SLOT;
        f->alone |= slot == NO_SLOT
                        ? freed_find(in->dead, addr) || find_beside(e, in, a->site, addr) != NO_SLOT
                        : inside != NO_SLOT && inside != slot;
        inside = slot == NO_SLOT ? inside : slot;
    }
    f->slot = f->alone ? NO_SLOT : inside;
}

/* The slot of the block at an address. The word's last block is tried first, as the likeliest. */
static inline uint32_t find_block(const struct blockmap *live, const struct word_state *s, uint64_t addr)
{
    const struct block *b = &live->blocks[s->slot];
    if (s->slot < live->used && addr - b->base < b->size)
        return s->slot;
    return blockmap_find(live, addr);
}

static inline void find_word(struct encoder *e, const struct surroundings *in, const struct missed *m,
                             uint32_t word, struct found *f)
{
    const struct word_state *s = &e->book.lines[m->line + word];
    const uint64_t value = word_at(m->words, word), lowest = value + (uint64_t)(int64_t)s->lowest;
    const uint32_t slot = find_block(in->live, s, lowest);
    *f = (struct found){.lowest = lowest, .slot = slot};
    if (slot != NO_SLOT ? is_inside(&in->live->blocks[slot], s, lowest)
                        : is_foreign(e, s, lowest) ||
                              (note_foreign(e, in, lowest) && note_foreign(e, in, lowest + s->span)))
        return;
    find_part(e, in, missed_segment(e, m), word, value, f);
}

/* Count the accesses of a word that is partly outside its block. */
static void count_part(struct encoder *e, const struct surroundings *in, const struct coded_segment *seg,
                       uint32_t word, const struct found *f)
{
    const struct block *b = &in->live->blocks[f->slot];
    uint64_t value = f->lowest - (uint64_t)(int64_t)e->book.lines[seg->line + word].lowest;
    for (uint32_t i = seg->first; i < seg->first + seg->count; i++) {
        const struct mt_access *a = &e->book.accesses[i];
        if (a->word != word)
            continue;
        if (value + (uint64_t)(int64_t)a->distance - b->base >= b->size) {
            in->totals->foreign++;
            continue;
        }
        in->totals->events[e->book.sites[a->site].kind]++;
        e->count++;
    }
}

static void code_alone(struct encoder *e, const struct surroundings *in, const struct coded_segment *seg,
                       struct words words, uint32_t alone)
{
    for (uint32_t i = seg->first; i < seg->first + seg->count; i++) {
        const struct mt_access a = e->book.accesses[i];
        if (alone >> a.word & 1)
            code_access(e, in, a.site, word_at(words, a.word) + (uint64_t)(int64_t)a.distance);
    }
}

/* Results of encoding the words of a segment; WORD_BITS of `codes` and one bit of each set per word. */
struct coding {
    uint64_t codes;
    uint32_t foreign; /* words outside all blocks that were not so before */
    uint32_t alone;   /* words whose accesses are to be encoded one by one */
    bool live;        /* at least one word is in a block */
};

/* Count the instructions of a segment, which are stored with its first word. */
static void count_instructions(struct batch *b, const struct word_state *s)
{
    b->outside[3] += tally_of(s->counts)[3];
}

/* Process a word that is in no block, or in several. */
static void code_outside_word(struct batch *b, const struct word_state *s, uint32_t i, bool alone,
                              struct coding *c)
{
    c->foreign |= (uint32_t) !(s->mode & MODE_FOREIGN) << i;
    c->alone |= (uint32_t)alone << i;
    if (alone)
        count_instructions(b, s);
    else
        b->outside += tally_of(s->counts);
}

/* Process a word that is not as predicted. */
static void code_unknown(struct encoder *e, const struct surroundings *in, struct batch *b,
                         const struct missed *m, uint32_t i, struct coding *c)
{
    struct word_state *s = &e->book.lines[m->line + i];
    struct found f;
    find_word(e, in, m, i, &f);
    if (f.slot == NO_SLOT) {
        code_outside_word(b, s, i, f.alone, c);
        return;
    }
    c->live = true;
    c->codes |= (uint64_t)code_word(e, in, s, &f) << i * WORD_BITS;
    if (!f.part) {
        b->live += tally_of(s->counts);
        return;
    }
    count_instructions(b, s);
    count_part(e, in, missed_segment(e, m), i, &f);
}

/* Write the codes of words that are outside all blocks now. This is done only if the segment is written. */
static void mark_foreign(struct encoder *e, uint32_t line, struct coding *c)
{
    for (uint32_t bits = c->foreign; bits; bits &= bits - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(bits);
        e->book.lines[line + i].mode |= MODE_FOREIGN;
        c->codes |= (uint64_t)WORD_FOREIGN << i * WORD_BITS;
    }
}

/* Encode the rest of a fused segment one access at a time. This keeps the order of the accesses when an earlier
 * part of the segment is encoded so. */
static void code_rest_alone(struct batch *b, const struct word_state *first, uint32_t i, uint32_t n,
                            struct coding *c)
{
    for (; i < n; i++)
        code_outside_word(b, &first[i], i, true, c);
}

/* Encode the words after those that were as predicted. */
static void code_words(struct encoder *e, const struct surroundings *in, struct batch *b,
                       const struct missed *m, uint32_t n, struct coding *c)
{
    struct word_state *first = &e->book.lines[m->line];
    for (uint32_t i = m->taken; i < n;) {
        if (c->alone && fusion_begins(&first[i])) {
            code_rest_alone(b, first, i, n, c);
            return;
        }
        code_unknown(e, in, b, m, i, c);
        for (i++; i < n && !(c->alone && fusion_begins(&first[i])) &&
                  take_word(e, b, &first[i], word_at(m->words, i), &c->live);)
            i++;
    }
}

void code_taken(struct encoder *e, const struct surroundings *in, const struct missed *m)
{
    if (!reserve(e, 2)) {
        in->totals->dropped += missed_segment(e, m)->count;
        return;
    }
    e->room -= 2;
    e->book.lines[m->line].epoch = e->epoch;
    end_segment(e, m->line, 0);
}

void code_segment(struct encoder *e, const struct surroundings *in, struct batch *b, const struct missed *m)
{
    struct word_state *first = &e->book.lines[m->line];
    struct coding c = {.live = m->live};
    uint32_t n = first->words;
    if (!reserve(e, 3 * n + 2)) {
        in->totals->dropped += missed_segment(e, m)->count;
        return;
    }
    code_words(e, in, b, m, n, &c);
    if (c.live) {
        first->epoch = e->epoch;
        mark_foreign(e, m->line, &c);
        e->room -= 3 * n + 2;
        end_segment(e, m->line, c.codes);
    } else if (!c.alone) {
        first->epoch |= QUIET;
    }
    if (c.alone)
        code_alone(e, in, missed_segment(e, m), m->words, c.alone);
}
