/* codebook.h - definitions of segments and sites, and the state of the predictor.
 *
 * The encoder and the decoder have one each. Segments and sites get ids in the order in which they are added.
 * Functions fail when memory runs out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_FORMAT_CODEBOOK_H
#define MEMTRACE_FORMAT_CODEBOOK_H

#include "memtrace/format/predictor.h"
#include "memtrace/memtrace.h"

/* A segment: where its state and its accesses are. */
struct coded_segment {
    uint32_t line;  /* line of its first word; NO_LINE: its definition was lost */
    uint32_t first; /* index of its first access */
    uint16_t count;
    uint8_t words, instructions; /* copies of the values in its line, for code that only skips segments */
};

/* A site, and its line as a segment of one access. */
struct coded_site {
    uint32_t size;
    uint32_t line; /* NO_LINE = not allocated yet */
    uint8_t kind;  /* enum mt_kind; 0 = not defined */
};

struct codebook {
    struct word_state *lines; /* [NO_LINE] is the state before the first segment */
    uint32_t *names;          /* of segments, by the line of the first word; NO_NAME for other lines */
    struct coded_segment *segments;
    struct mt_access *accesses; /* accesses of all segments */
    struct coded_site *sites;   /* by site id; [0] is not defined */
    uint32_t line_count, segment_count, access_count, site_count;
    size_t line_room, name_room, segment_room, access_room, site_room;
};

bool codebook_init(struct codebook *b);
void codebook_free(struct codebook *b);

bool codebook_site(struct codebook *b, uint32_t size, uint8_t kind);
/* Add a segment that segment_is_good accepts, or a lost one if s is NULL. */
bool codebook_segment(struct codebook *b, const struct mt_segment *s);

/* Does a segment fulfil the conditions of memtrace.h, if this number of sites is defined? */
bool segment_is_good(const struct mt_segment *s, uint64_t sites);

/* The line of a site as a segment of one access; NO_LINE when out of memory. Lines may be moved. */
uint32_t codebook_site_line(struct codebook *b, uint32_t site);

#endif
