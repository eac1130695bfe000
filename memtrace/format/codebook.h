/* codebook.h - what both ends of the access coding know about segments and sites, and their predictor's
 * state.
 *
 * Segments get their ids in order, sites too. When memory runs out, functions fail.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_FORMAT_CODEBOOK_H
#define MEMTRACE_FORMAT_CODEBOOK_H

#include "memtrace/format/predictor.h"
#include "memtrace/memtrace.h"

/* Where a segment's state and accesses are. */
struct coded_segment {
    uint32_t line;  /* of its first word; NO_LINE: it was lost */
    uint32_t first; /* of its accesses */
    uint16_t count;
    uint8_t words, instructions; /* again, because who skips a segment needs nothing else */
};

/* A site's access, and its line as a segment of its own. */
struct coded_site {
    uint32_t size;
    uint32_t line; /* NO_LINE = none yet */
    uint8_t kind;  /* enum mt_kind; 0 = site not known */
};

struct codebook {
    struct word_state *lines; /* [NO_LINE] stands for "no segment" */
    uint32_t *names;          /* of segments, by the lines of their first words; else NO_NAME */
    struct coded_segment *segments;
    struct mt_access *accesses; /* of all segments */
    struct coded_site *sites;   /* by site id; [0] is not known */
    uint32_t line_count, segment_count, access_count, site_count;
    size_t line_room, name_room, segment_room, access_room, site_room;
};

bool codebook_init(struct codebook *b);
void codebook_free(struct codebook *b);

bool codebook_site(struct codebook *b, uint32_t size, uint8_t kind);
/* s: good by segment_is_good; NULL = a lost one. */
bool codebook_segment(struct codebook *b, const struct mt_segment *s);

/* Is a segment as memtrace.h wants it, if there are so many sites? */
bool segment_is_good(const struct mt_segment *s, uint64_t sites);

/* The line of a site as a segment of its own; NO_LINE when out of memory. Lines may move. */
uint32_t codebook_site_line(struct codebook *b, uint32_t site);

#endif
