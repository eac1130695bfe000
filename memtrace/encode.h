/* encode.h - the EVENTS chunk being made: accesses coded against the predictor, rare records between.
 *
 * Knows slots, sites and offsets; which block an address belongs to it asks the block map, trying the
 * predicted block first. Does no I/O: the writer compresses the streams and calls encoder_start again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_ENCODE_H
#define MEMTRACE_ENCODE_H

#include "blockmap.h"
#include "format.h"
#include "predict.h"
#include "records.h"

struct encoder {
    struct buffer streams[EVENT_STREAMS];
    struct site_state *sites; /* by site id; [0] stands for "no site yet" */
    uint32_t site_count, site_capacity;
    uint32_t epoch;
    uint32_t prev_site, prev_slot;
    uint64_t run;   /* accesses guessed right since the last token */
    uint32_t count; /* events in this chunk */
};

bool encoder_init(struct encoder *e);
void encoder_destroy(struct encoder *e);

/* Begin a chunk at this guest time. */
void encoder_start(struct encoder *e, uint64_t time);

/* Make a site known; false when out of memory. Sites come in order of their ids. */
bool encoder_site(struct encoder *e, uint32_t size, uint8_t kind);

/* How a batch of accesses went. */
struct access_counts {
    uint64_t kinds[MT_KINDS];
    uint64_t foreign; /* outside live blocks */
    uint64_t invalid; /* of sites never defined */
};

/* Most accesses encoder_accesses takes at once. */
#define ENCODE_BATCH 4096u

/* Code n <= ENCODE_BATCH accesses; false when out of memory. */
bool encoder_accesses(struct encoder *e, const struct blockmap *m, const uint32_t *sites,
                      const uint64_t *addrs, size_t n, struct access_counts *counts);

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
