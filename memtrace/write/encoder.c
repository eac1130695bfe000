/* encoder.c - encodes accesses and rare events into the streams of an EVENTS chunk.
 *
 * encoder_segments is the hot loop of the recorder's collector. It predicts the next segment and the place of each of
 * its words (memtrace/format/predictor.h). A word is one base address of a segment, with the accesses at constant
 * distances from it. There are four cases:
 *
 * - A segment that is as predicted takes the shortest path (take_guessed). It checks that the address lies in the
 *   predicted block and does not search the block map. This suffices, because blocks do not overlap.
 *
 * - A segment that was not predicted, but whose words are all where their own state predicts (code_taken).
 *
 * - A segment all of whose words are outside heap blocks, such as accesses of C code to the stack, is only counted
 *   (is_quiet).
 *
 * - For all other segments, the block of each word is searched (code_segment). If all accesses of a word lie in one
 *   block, or some lie in one block and the others in none, the word is encoded as that block and the offset of the
 *   lowest access. If they lie in several blocks, or touch freed memory, each access is encoded on its own after the
 *   segment.
 *
 * The parts of a fused segment (fusion.c) are gathered into one array of words; it is then encoded like any other
 * segment.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/encoder.h"
#include "memtrace/stream.h"

#include <string.h>

/* Counts of loads, stores, modifies and instructions. */
typedef uint32_t tally __attribute__((vector_size(16)));

/* Unpack the counts of a word, or the sum of the counts of several words of a segment; each fits in a byte. */
static inline tally tally_of(uint32_t c)
{
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128(), bytes = _mm_cvtsi32_si128((int)c);
    return (tally)_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero);
#else
    return (tally){c & 0xff, c >> 8 & 0xff, c >> 16 & 0xff, c >> 24};
#endif
}

/* State of encoding several segments, while no block is allocated or freed. */
struct batch {
    const struct block *blocks;
    const struct blockmap *unsampled; /* of struct surroundings */
    tally live, outside;              /* counts of words in blocks, and of words in none */
    const struct mt_between *between;
    uint64_t began; /* instructions executed before the batch */
};

/* The words of a segment: as they are in a stream, or gathered, in 8 bytes each. */
struct words {
    const uint8_t *first;
    uint32_t apart; /* distance between two words in bytes */
};

static inline struct words words_of(const uint8_t *segment)
{
    return (struct words){segment + MT_STREAM_ID, MT_STREAM_WORD};
}

static inline struct words words_gathered(const uint64_t *words)
{
    return (struct words){(const uint8_t *)words, sizeof *words};
}

static inline uint64_t word_at(struct words w, uint32_t i)
{
    const uint8_t *at = w.first + (size_t)i * w.apart;
    return w.apart == MT_STREAM_WORD ? mt_stream_word(at) : *(const mt_stream_whole *)at;
}

/* Gather the words of a fused segment from a stream that begins with its first part. Returns the bytes of the stream
 * that it covers; 0 if other segments follow there. */
static inline size_t gather_parts(const struct word_state *first, const uint8_t *at, const uint8_t *end,
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
static inline bool begins_part(const struct word_state *s)
{
    return s->words & NOT_FIRST && s->next[0];
}

/* A segment that was not predicted correctly. */
struct missed {
    struct words words;
    uint32_t line;
    uint32_t taken; /* number of words before the first that was not as predicted */
    bool live;      /* at least one of these words is in a block */
};

/* -- tokens and numbers -- */

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

/* Write the token that ends a run of correct predictions. */
static __attribute__((noinline)) void put_token(struct encoder *e, unsigned misses)
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

/* -- pages without blocks -- */

static inline bool foreign_page(const uint64_t *pages, uint64_t addr)
{
    return pages[addr >> PAGE_BITS & (FOREIGN_PAGES - 1)] == (addr >> PAGE_BITS) + 1;
}

/* Is the whole word in pages that are known to contain no block? */
static inline bool is_foreign(const struct encoder *e, const struct word_state *s, uint64_t lowest)
{
    return foreign_page(e->foreign, lowest) && foreign_page(e->foreign, lowest + s->span);
}

/* Clear the cache of pages without blocks if blocks may have been allocated in them. */
static void check_foreign(struct encoder *e, const struct surroundings *in)
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

/* Are all accesses of a word in this block? */
static inline bool is_inside(const struct block *block, const struct word_state *s, uint64_t lowest)
{
    const uint64_t highest = lowest - block->base + s->span;
    return __builtin_expect(highest < block->size && highest >= s->span, 1);
}

/* Is the whole word in a block that the sample leaves out? */
static inline bool is_unsampled(const struct blockmap *unsampled, const struct word_state *s, uint64_t lowest)
{
    const uint32_t slot = unsampled ? blockmap_find(unsampled, lowest) : NO_SLOT;
    return slot != NO_SLOT && is_inside(&unsampled->blocks[slot], s, lowest);
}

/* Is the whole word known to be in no recorded block? */
static inline bool is_elsewhere(const struct encoder *e, const struct batch *b, const struct word_state *s,
                                uint64_t lowest)
{
    return is_foreign(e, s, lowest) || is_unsampled(b->unsampled, s, lowest);
}

/* -- words that are as predicted -- */

/* Is a word at the predicted place, and is that place in a block? The address is compared first, because a wrong
 * one is then known without waiting for the load of the block. */
static inline bool is_guessed(const struct block *blocks, const struct word_state *s, uint64_t lowest,
                              struct guess g)
{
    return lowest == g.addr && is_inside(&blocks[g.slot], s, lowest);
}

/* Process a word if it is as predicted. Sets *live if it is in a block. */
static inline bool take_word(struct encoder *e, struct batch *b, struct word_state *s, uint64_t value,
                             bool *live)
{
    uint64_t lowest = value + (uint64_t)(int64_t)s->lowest;
    if (s->mode & MODE_FOREIGN) {
        if (!is_elsewhere(e, b, s, lowest))
            return false;
        b->outside += tally_of(s->counts);
        return true;
    }
    struct guess g = guess_word(s, &e->recent);
    if (!is_guessed(b->blocks, s, lowest, g))
        return false;
    learn_word(s, &e->recent, lowest, g.slot);
    b->live += tally_of(s->counts);
    *live = true;
    return true;
}

/* -- other words, and whole segments -- */

/* The place that was found for a word. */
struct found {
    uint64_t lowest;
    uint32_t slot; /* NO_SLOT = no block */
    bool part;     /* some of its accesses are outside the block and in no other */
    bool alone;    /* its accesses are to be encoded one by one, after the segment */
};

/* Write the id of the segment that follows, and update the prediction. */
static void code_name(struct encoder *e, uint32_t line)
{
    struct word_state *prev = &e->book.lines[e->prev_line];
    put_number(e, STREAM_SEGMENTS, line == prev->next[1] ? 0 : (uint64_t)e->book.names[line] + 1);
    learn_segment(prev, line);
}

/* Encode a word that lies in a block but was not predicted. */
static enum word_code code_word(struct encoder *e, const struct surroundings *in, struct word_state *s,
                                const struct found *f)
{
    uint32_t age = 0;
    const enum word_code code = code_of_miss(s, &e->recent, f->lowest, f->slot, f->part, &age);
    if (code == WORD_BACK)
        put_number(e, STREAM_AGES, age);
    if (code == WORD_BLOCK)
        put_number(e, STREAM_SLOTS, f->slot);
    if (code == WORD_BLOCK || code == WORD_INSIDE)
        put_number(e, STREAM_OFFSETS, f->lowest - in->live->blocks[f->slot].base);
    learn_miss(s, &e->recent, code, age, f->lowest, f->slot);
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
    if (in->unsampled && blockmap_find(in->unsampled, addr) != NO_SLOT)
        return NO_SLOT;
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
    if (guess_is(guess_word(s, &e->recent), addr, slot))
        learn_word(s, &e->recent, addr, slot);
    else
        code = code_word(e, in, s, &f);
    end_segment(e, line, code);
}

/* Encode a single access. */
static void code_access(struct encoder *e, const struct surroundings *in, uint32_t site, uint64_t addr)
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

/* -- segments that are not as predicted -- */

static inline const struct coded_segment *missed_segment(const struct encoder *e, const struct missed *m)
{
    return &e->book.segments[e->book.names[m->line] >> 1];
}

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
                        : is_unsampled(in->unsampled, s, lowest) || is_foreign(e, s, lowest) ||
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
        if (c->alone && begins_part(&first[i])) {
            code_rest_alone(b, first, i, n, c);
            return;
        }
        code_unknown(e, in, b, m, i, c);
        for (i++; i < n && !(c->alone && begins_part(&first[i])) &&
                  take_word(e, b, &first[i], word_at(m->words, i), &c->live);)
            i++;
    }
}

/* Encode a segment whose words are all as predicted, although the segment itself was not. */
static __attribute__((noinline)) void code_taken(struct encoder *e, const struct surroundings *in,
                                                 const struct missed *m)
{
    if (!reserve(e, 2)) {
        in->totals->dropped += missed_segment(e, m)->count;
        return;
    }
    e->room -= 2;
    e->book.lines[m->line].epoch = e->epoch;
    end_segment(e, m->line, 0);
}

/* Find the blocks of the other words, encode the segment if at least one word is in a block, and count its accesses. */
static __attribute__((noinline)) void code_segment(struct encoder *e, const struct surroundings *in,
                                                   struct batch *b, const struct missed *m)
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

/* -- the hot loop -- */

/* Does a segment that accessed no block the last time access no block this time either? */
static inline bool is_quiet(struct encoder *e, struct batch *b, const struct word_state *first,
                            struct words words)
{
    tally sum = {0};
    if (!(first->epoch & QUIET))
        return false;
    for (uint32_t i = 0; i < first->words; i++) {
        if (!is_elsewhere(e, b, &first[i], word_at(words, i) + (uint64_t)(int64_t)first[i].lowest))
            return false;
        sum += tally_of(first[i].counts);
    }
    b->outside += sum;
    return true;
}

/* Process the words of a segment as long as they are as predicted, and return their number. This does what
 * take_word does for each word, but in one loop with its values in registers, because the number of instructions
 * determines the speed. Split into functions it takes 3 to 5% longer. */
static inline __attribute__((always_inline)) uint32_t
take_words(struct encoder *e, struct batch *b, struct word_state *first, const struct words words)
{
    const struct block *const blocks = b->blocks;
    struct words at = words;
    struct word_state *s = first, *const end = first + first->words;
    uint32_t next = e->recent.next, counts = 0;
    do {
        const uint64_t lowest = word_at(at, 0) + (uint64_t)(int64_t)s->lowest;
        uint32_t slot = s->slot;
        const uint8_t mode = s->mode;
        if (mode & MODE_FOREIGN) {
            if (!is_elsewhere(e, b, s, lowest))
                break;
            b->outside += tally_of(s->counts);
            continue;
        }
        if (mode & MODE_BACK) {
            const uint32_t i = (next - mode) % RECENT;
            slot = e->recent.slot[i];
            if (lowest != e->recent.addr[i] + s->back || !is_inside(&blocks[slot], s, lowest))
                break;
            learn_own(s, lowest, slot);
        } else {
            const uint64_t stride = s->stride;
            if (lowest != s->addr + stride || !is_inside(&blocks[slot], s, lowest))
                break;
            s->addr = lowest;
            s->delta = stride;
        }
        recent_put(&e->recent, next++, lowest, slot);
        counts += s->counts;
    } while (at.first += at.apart, ++s != end);
    e->recent.next = next;
    b->live += tally_of(counts);
    return (uint32_t)(s - first);
}

/* Let the caller's `between` function process data that is not a segment. Returns the number of bytes processed, 0
 * at the end of the stream. */
static inline size_t take_between(struct encoder *e, const struct surroundings *in, const struct batch *b,
                                  const uint8_t *at, const uint8_t *end)
{
    struct mt_change c = {.vm = MT_VMS};
    size_t used = b->between ? b->between->take(b->between->context, at, (size_t)(end - at), &c) : 0;
    if (c.vm == MT_VMS)
        return used;
    uint64_t time = b->began + b->live[3] + b->outside[3] + c.uncounted;
    if (time > in->totals->instructions)
        in->totals->instructions = time;
    encoder_change(e, in, &c);
    return used;
}

/* Process the segment with this line, which need not be the predicted one. */
static inline __attribute__((always_inline)) void take_line(struct encoder *e, const struct surroundings *in,
                                                            struct batch *b, uint32_t line,
                                                            struct words words)
{
    struct word_state *first = &e->book.lines[line];
    const uint32_t before = e->recent.next;
    if (is_quiet(e, b, first, words))
        return;
    if ((first->epoch & ~QUIET) != e->epoch)
        segment_reset(first, e->epoch);
    uint32_t taken = take_words(e, b, first, words);
    struct missed m = {words, line, taken, e->recent.next != before};
    if (taken == first->words && m.live)
        code_taken(e, in, &m);
    else
        code_segment(e, in, b, &m);
}

/* Define the fused segment that begins with this segment, if that is possible. */
static void fuse(struct encoder *e, const struct surroundings *in, uint32_t id)
{
    struct mt_access accesses[MT_SEGMENT_MOST];
    uint32_t parts[FUSION_PARTS];
    struct mt_segment s;
    unsigned n = fusion_plan(&e->fusion, &e->book, id, &s, accesses, parts);
    if (n > 1 && !in->define(in->writer, &s))
        n = 0;
    fusion_made(&e->fusion, &e->book, id, parts, n);
}

/* Gather the words of the fused segment that begins with this segment, and define it first if it is ready to be
 * fused. Returns the number of bytes of the stream that it covers, 0 if other segments follow in the stream. */
static size_t gather(struct encoder *e, const struct surroundings *in, uint32_t id, const uint8_t *at,
                     const uint8_t *end, uint64_t words[FUSION_WORDS])
{
    const struct fusible *s = &e->fusion.of[id];
    if (s->state == FUSION_READY)
        fuse(e, in, id);
    return s->state == FUSION_MADE ? gather_parts(&e->book.lines[s->fused], at, end, words) : 0;
}

/* Process a segment that is not the predicted one, or data that is not a segment. */
static __attribute__((noinline)) size_t take_other(struct encoder *e, const struct surroundings *in,
                                                   struct batch *b, const uint8_t *at, const uint8_t *end)
{
    uint64_t words[FUSION_WORDS];
    const uint32_t id = mt_stream_id(at);
    if (id >= e->fusion.count)
        return take_between(e, in, b, at, end);
    const struct fusible *s = &e->fusion.of[id];
    const size_t bytes = mt_stream_bytes(e->book.lines[s->line].words);
    if (bytes > (size_t)(end - at))
        return 0;
    size_t used = gather(e, in, id, at, end, words);
    if (used)
        take_line(e, in, b, s->fused, words_gathered(words));
    else
        take_line(e, in, b, s->line, words_of(at));
    return used ? used : bytes;
}

/* Process the predicted segment. */
static inline __attribute__((always_inline)) void take_guessed(struct encoder *e,
                                                               const struct surroundings *in, struct batch *b,
                                                               struct word_state *first, uint32_t line,
                                                               struct words words)
{
    const uint32_t before = e->recent.next, taken = take_words(e, b, first, words);
    const bool live = e->recent.next != before;
    if (taken == first->words) {
        e->run += live;
        e->prev_line = live ? line : e->prev_line;
    } else {
        code_segment(e, in, b, &(struct missed){words, line, taken, live});
    }
}

/* Process the segment at `at` and return its number of bytes, or 0 if the stream holds no complete segment there.
 * The predicted segment has already run in this chunk, so its state is initialized. */
static inline __attribute__((always_inline)) size_t take_segment(struct encoder *e,
                                                                 const struct surroundings *in,
                                                                 struct batch *b, const uint8_t *at,
                                                                 const uint8_t *end)
{
    __builtin_prefetch(at + PREFETCH_BYTES);
    const uint32_t id = mt_stream_id(at);
    const uint32_t line = e->book.lines[e->prev_line].next[0];
    struct word_state *first = &e->book.lines[line];
    if ((uint64_t)id << 1 == first->name) {
        const size_t bytes = mt_stream_bytes(first->words);
        if (bytes > (size_t)(end - at))
            return 0;
        take_guessed(e, in, b, first, line, words_of(at));
        return bytes;
    }
    uint64_t words[FUSION_WORDS];
    size_t used = ((uint64_t)id << 1 | 1) == first->name ? gather_parts(first, at, end, words) : 0;
    if (!used)
        return take_other(e, in, b, at, end);
    take_guessed(e, in, b, first, line, words_gathered(words));
    return used;
}

/* Pass the segments just processed to the observation of fusion. *last is the last segment observed,
 * FUSION_NOTHING if there is none. */
static __attribute__((noinline)) void watch(struct encoder *e, const uint8_t *at, size_t used, uint32_t *last)
{
    for (const uint8_t *end = at + used; at < end;
         at += mt_stream_bytes(e->book.lines[e->fusion.of[*last].line].words)) {
        const uint32_t found = mt_stream_id(at), id = found < e->fusion.count ? found : FUSION_NOTHING;
        if (*last != FUSION_NOTHING)
            fusion_observe(&e->fusion, &e->book, *last, id);
        *last = id;
        if (id == FUSION_NOTHING)
            return;
    }
}

static void end_batch(struct encoder *e, const struct surroundings *in, const struct batch *b,
                      uint64_t *instructions)
{
    struct mt_totals *t = in->totals;
    t->events[MT_LOAD] += b->live[0];
    t->events[MT_STORE] += b->live[1];
    t->events[MT_MODIFY] += b->live[2];
    t->foreign += b->outside[0] + b->outside[1] + b->outside[2];
    e->count += b->live[0] + b->live[1] + b->live[2];
    *instructions += b->live[3] + b->outside[3];
}

/* The offset from which fewer than MT_STREAM_ID bytes remain of n. */
static inline size_t ids_end(size_t n)
{
    return n < MT_STREAM_ID ? 0 : n - MT_STREAM_ID + 1;
}

size_t encoder_segments(struct encoder *e, const struct surroundings *in, const uint8_t *stream, size_t n,
                        uint64_t *instructions, const struct mt_between *between)
{
    const uint8_t *at = stream, *const end = stream + n;
    const uint8_t *const stop = stream + (n < ENCODE_BYTES + MT_STREAM_ID ? ids_end(n) : ENCODE_BYTES);
    struct batch b = {
        .blocks = in->live->blocks, .unsampled = in->unsampled, .between = between, .began = *instructions};
    const bool watched = fusion_samples(&e->fusion);
    uint32_t last = FUSION_NOTHING;
    check_foreign(e, in);
    for (size_t used = 1; used && at < stop; at += used) {
        used = take_segment(e, in, &b, at, end);
        if (__builtin_expect(watched, 0))
            watch(e, at, used, &last);
    }
    if (last != FUSION_NOTHING && (at < stop || n < ENCODE_BYTES + MT_STREAM_ID))
        fusion_observe(&e->fusion, &e->book, last, FUSION_NOTHING);
    end_batch(e, in, &b, instructions);
    return (size_t)(at - stream);
}

/* -- everything else -- */

bool encoder_init(struct encoder *e)
{
    *e = (struct encoder){0};
    return codebook_init(&e->book);
}

void encoder_destroy(struct encoder *e)
{
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        buffer_free(&e->streams[i]);
    codebook_free(&e->book);
    fusion_free(&e->fusion);
}

bool encoder_segment(struct encoder *e)
{
    const uint32_t segment = e->book.segment_count - 1, line = e->book.segments[segment].line;
    e->book.lines[line].name = e->fusion.count * 2;
    return fusion_add(&e->fusion, segment, line);
}

void encoder_start(struct encoder *e, uint64_t time)
{
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        buffer_reset(&e->streams[i]);
    e->streams[STREAM_RARE].time = time;
    e->epoch = (e->epoch + 1) & ~QUIET;
    e->prev_line = NO_LINE;
    e->recent = (struct recent){0};
    e->run = 0;
    e->count = 0;
    e->room = 0; /* the streams may have other memory now */
    segment_reset(&e->book.lines[NO_LINE], e->epoch);
}

void encoder_accesses(struct encoder *e, const struct surroundings *in, const uint32_t *sites,
                      const uint64_t *addrs, size_t n)
{
    check_foreign(e, in);
    for (size_t i = 0; i < n; i++)
        code_access(e, in, sites[i], addrs[i]);
}

void encoder_change(struct encoder *e, const struct surroundings *in, const struct mt_change *c)
{
    put_vm(encoder_rare(e),
           &(struct rec_vm){in->totals->instructions, c->heap < in->heaps ? c->heap : 0,
                            c->vm < MT_VMS ? c->vm : MT_VM_C, c->vm == MT_VM_TRACE ? c->trace : 0});
    in->totals->events[MT_STATE]++;
    e->count++;
}

struct buffer *encoder_rare(struct encoder *e)
{
    put_token(e, 0);
    return &e->streams[STREAM_RARE];
}

uint64_t encoder_bytes(const struct encoder *e)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < EVENT_STREAMS; i++) {
        if (e->streams[i].failed)
            return UINT64_MAX;
        n += buffer_size(&e->streams[i]);
    }
    return n;
}
