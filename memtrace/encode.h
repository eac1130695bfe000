/* encode.h - the EVENTS chunk being made: accesses coded against the predictor, rare records between.
 *
 * Knows slots, sites and offsets; which block an address belongs to it asks the block map, trying the
 * predicted block first, and the graves last. Does no I/O: the writer compresses the streams and calls
 * encoder_start again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_ENCODE_H
#define MEMTRACE_ENCODE_H

#include "format.h"
#include "graves.h"
#include "predict.h"
#include "records.h"

/* Pages remembered to hold neither live nor dead blocks: the stack, globals... */
enum { FOREIGN_PAGES = 64 };

struct encoder {
    struct buffer streams[EVENT_STREAMS];
    struct site_state *sites; /* by site id; [0] stands for "no site yet" */
    uint32_t site_count, site_capacity;
    uint32_t epoch;
    uint32_t prev_site, prev_slot;
    uint64_t run;                    /* accesses guessed right since the last token */
    uint32_t count;                  /* events in this chunk */
    uint32_t room;                   /* accesses for which all streams have room */
    uint64_t foreign[FOREIGN_PAGES]; /* page number + 1 by its low bits; 0 = none */
    uint64_t pages_made;             /* of both maps when that was so */
};

bool encoder_init(struct encoder *e);
void encoder_destroy(struct encoder *e);

/* Begin a chunk at this guest time. */
void encoder_start(struct encoder *e, uint64_t time);

/* Make a site known; false when out of memory. Sites come in order of their ids. */
bool encoder_site(struct encoder *e, uint32_t size, uint8_t kind);

/* Where accesses are looked for, and where they are counted. */
struct surroundings {
    const struct blockmap *live;
    const struct graves *dead;
    struct mt_totals *totals; /* its `instructions` is the time now */
};

/* Most accesses encoder_accesses takes at once. */
#define ENCODE_BATCH 4096u

/* Code n <= ENCODE_BATCH accesses; false when out of memory. They are counted by kind, as freed, foreign, or
 * dropped if their site was never defined. */
bool encoder_accesses(struct encoder *e, const struct surroundings *in, const uint32_t *sites,
                      const uint64_t *addrs, size_t n);

/* The stream for a rare record that comes now. The caller puts the record and counts the event. */
struct buffer *encoder_rare(struct encoder *e);

/* The block made or changed is the likeliest to be accessed next. */
static inline void encoder_touch(struct encoder *e, uint32_t slot)
{
    e->prev_slot = slot;
}

/* Bytes in all streams so far; UINT64_MAX if one ran out of memory. */
uint64_t encoder_bytes(const struct encoder *e);

#endif
