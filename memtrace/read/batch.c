/* batch.c - describes the accesses of each segment, for readers of batches.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/read/batch.h"
#include "memtrace/base/array.h"

#include <stdlib.h>

/* Extent of a word with accesses that are undefined or too large. No block has this size, so a segment with such a
 * word is never delivered in a batch. */
#define NEVER UINT32_MAX
#define LONGEST (INT32_MAX - UINT16_MAX) /* with any offset added, it still fits in an int32_t */

void batch_free(struct batch *p)
{
    if (!p)
        return;
    free(p->segments);
    free(p->accesses);
    free(p);
}

static void add_access(struct batch *p, const struct codebook *b, uint32_t line, const struct mt_access *a)
{
    const struct coded_site *site = &b->sites[a->site];
    struct mt_segment_word *word = &p->segments[line + a->word];
    uint16_t offset = (uint16_t)(a->distance - b->lines[line + a->word].lowest);
    /* an access of 0 bytes must begin in its block, too */
    uint32_t end = offset + site->size + !site->size;
    p->accesses[p->n_accesses++] = (struct mt_segment_access){
        .site = a->site, .size = site->size, .offset = offset, .kind = site->kind, .word = (uint8_t)a->word};
    word->own++;
    if (!site->kind || site->size > LONGEST)
        word->extent = NEVER;
    else if (word->extent < end)
        word->extent = end;
}

/* Add the description of the segment that begins at a line. */
static bool add_segment(struct batch *p, const struct codebook *b, uint32_t line)
{
    const struct word_state *first = &b->lines[line];
    const uint32_t name = b->names[line];
    const struct mt_access alone = {name >> 1, 0, 0}, *a = &alone;
    uint32_t count = 1;
    if (!(name & 1)) {
        const struct coded_segment *s = &b->segments[name >> 1];
        a = &b->accesses[s->first];
        count = s->count;
    }
    if (!array_reserve(&p->accesses, &p->room_accesses, p->n_accesses + count, sizeof *p->accesses))
        return false;
    p->segments[line].first = p->n_accesses;
    p->segments[line].count = (uint8_t)count;
    p->segments[line].words = first->words;
    for (uint32_t i = 0; i < count; i++)
        add_access(p, b, line, &a[i]);
    return true;
}

bool batch_learn(struct batch *p, const struct codebook *b)
{
    /* room for one access: there is a first one in the array even if no segment has any */
    if (!array_reserve(&p->segments, &p->room_segments, b->line_count, sizeof *p->segments) ||
        !array_reserve(&p->accesses, &p->room_accesses, 1, sizeof *p->accesses))
        return false;
    for (uint32_t i = p->n_segments; i < b->line_count; i++)
        p->segments[i] = (struct mt_segment_word){0};
    for (; p->n_segments < b->line_count; p->n_segments++)
        if (b->names[p->n_segments] != NO_NAME && !add_segment(p, b, p->n_segments))
            return false;
    return true;
}
