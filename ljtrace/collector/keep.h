/* keep.h - a recording of limited size that keeps its last part (--keep=last).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The trace is cut into parts of half the size. Each is a trace of its own: it begins with all definitions and
 * with the blocks that live. The newest has the file's name; the one before is beside it under another
 * (sink_variant), and replaces the one before that. So at least half the size is always there, and never more
 * than all of it.
 */
#ifndef COLLECTOR_KEEP_H
#define COLLECTOR_KEEP_H

#include "ljtrace/collector/sink.h"
#include "memtrace/memtrace.h"
#include <stdbool.h>
#include <stdint.h>

struct keep {
    uint64_t part;      /* a part ends when its file has so many bytes; 0 = there are no parts */
    uint64_t begun;     /* events with which the newest part began */
    uint64_t before;    /* events of the part before it */
    uint64_t discarded; /* of those that were replaced */
};

/* For files of at most so many bytes in all. */
struct keep keep_for(uint64_t max_size);
/* Is it time, and possible here, to begin another part? */
bool keep_is_due(const struct keep *k, const struct mt_writer *w);
/* End the part and begin another: *s and *w are replaced. NULL, or why that cannot be; then they are as they were. If
 * what a part begins with leaves too little room for the rest, the recording is limited instead: this part is the last. */
const char *keep_begin_part(struct keep *k, struct sink *s, struct mt_writer **w,
                            const struct mt_writer_options *options, const char *process);
/* What the user should know at the end about the parts; false if there is only one. */
bool keep_summary(const struct keep *k, const struct sink *s, const struct mt_writer *w, char *text,
                  size_t room);

#endif
