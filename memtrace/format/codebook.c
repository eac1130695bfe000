/* codebook.c - stores the definitions of segments and sites for the encoder and the decoder.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/format/codebook.h"
#include "memtrace/base/array.h"

#include <stdlib.h>
#include <string.h>

static bool grow_lines(struct codebook *b, uint32_t more)
{
    return array_reserve(&b->names, &b->name_room, b->line_count + more, sizeof *b->names) &&
           array_reserve_aligned(&b->lines, &b->line_room, b->line_count + more, sizeof *b->lines);
}

/* Add a line. Room for it has been reserved. */
static uint32_t add_line(struct codebook *b, uint32_t name, const struct word_state *state)
{
    b->names[b->line_count] = name;
    b->lines[b->line_count] = *state;
    b->lines[b->line_count].name = NO_NAME;
    return b->line_count++;
}

bool codebook_init(struct codebook *b)
{
    *b = (struct codebook){0};
    if (!grow_lines(b, 1))
        return false;
    add_line(b, NO_NAME, &(struct word_state){0});
    return codebook_site(b, 0, 0);
}

void codebook_free(struct codebook *b)
{
    free(b->lines);
    free(b->names);
    free(b->segments);
    free(b->accesses);
    free(b->sites);
}

bool codebook_site(struct codebook *b, uint32_t size, uint8_t kind)
{
    if (!array_reserve(&b->sites, &b->site_room, b->site_count + 1, sizeof *b->sites))
        return false;
    b->sites[b->site_count++] = (struct coded_site){.size = size, .kind = kind};
    return true;
}

/* The contribution of one access to the counts of its word; 0 if the definition of its site was lost. */
static uint32_t one_of(uint8_t kind)
{
    return kind ? 1u << 8 * (kind - MT_LOAD) : 0;
}

uint32_t codebook_site_line(struct codebook *b, uint32_t site)
{
    struct coded_site *s = &b->sites[site];
    if (s->line == NO_LINE && grow_lines(b, 1))
        s->line = add_line(b, site * 2 + 1, &(struct word_state){.counts = one_of(s->kind), .words = 1});
    return s->line;
}

/* The lowest and the highest distance of accesses from a word; false if no access uses the word. */
static bool reach(const struct mt_segment *s, uint32_t word, int32_t *lowest, int32_t *highest)
{
    *lowest = INT32_MAX;
    *highest = INT32_MIN;
    for (uint32_t i = 0; i < s->count; i++) {
        int32_t d = s->accesses[i].distance;
        if (s->accesses[i].word != word)
            continue;
        *lowest = d < *lowest ? d : *lowest;
        *highest = d > *highest ? d : *highest;
    }
    return *lowest <= *highest;
}

bool segment_is_good(const struct mt_segment *s, uint64_t sites)
{
    int32_t lowest, highest;
    if (s->count - 1u >= MT_SEGMENT_MOST || s->words - 1u >= MT_SEGMENT_WORDS ||
        s->instructions > MT_SEGMENT_INSTRUCTIONS)
        return false;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->accesses[i].site == 0 || s->accesses[i].site >= sites || s->accesses[i].word >= s->words)
            return false;
    for (uint32_t word = 0; word < s->words; word++)
        if (!reach(s, word, &lowest, &highest) || (int64_t)highest - lowest > UINT16_MAX)
            return false;
    return true;
}

static void add_word(struct codebook *b, const struct mt_segment *s, uint32_t word)
{
    int32_t lowest, highest;
    reach(s, word, &lowest, &highest);
    struct word_state line = {.lowest = lowest,
                              .span = (uint16_t)(highest - lowest),
                              .words = (uint8_t)(word ? NOT_FIRST + s->words - 1 - word : s->words),
                              .counts = word ? 0 : s->instructions << 24};
    for (uint32_t i = 0; i < s->count; i++)
        if (s->accesses[i].word == word)
            line.counts += one_of(b->sites[s->accesses[i].site].kind);
    add_line(b, word ? NO_NAME : b->segment_count * 2, &line);
}

bool codebook_segment(struct codebook *b, const struct mt_segment *s)
{
    static const struct mt_segment lost;
    s = s ? s : &lost;
    if (!array_reserve(&b->accesses, &b->access_room, b->access_count + s->count, sizeof *b->accesses) ||
        !array_reserve(&b->segments, &b->segment_room, b->segment_count + 1, sizeof *b->segments) ||
        !grow_lines(b, s->words))
        return false;
    b->segments[b->segment_count] =
        (struct coded_segment){s->words ? b->line_count : NO_LINE, b->access_count, (uint16_t)s->count,
                               (uint8_t)s->words, (uint8_t)s->instructions};
    if (s->count)
        memcpy(b->accesses + b->access_count, s->accesses, s->count * sizeof *s->accesses);
    for (uint32_t word = 0; word < s->words; word++)
        add_word(b, s, word);
    b->access_count += s->count;
    b->segment_count++;
    return true;
}
