/* keep.h - a recording of limited size that keeps its last part (--keep=last).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The trace is cut into parts of half the size limit. Each part is a trace of its own, which begins with all
 * definitions and all live blocks. The newest part has the file's name. The part before it is stored beside
 * it under another name (sink_variant) and replaces the part before that. So the files always hold the last
 * events up to at least half the limit, and never more than the limit.
 */
#ifndef COLLECTOR_KEEP_H
#define COLLECTOR_KEEP_H

#include "ljtrace/collector/sink.h"
#include "memtrace/memtrace.h"
#include <stdbool.h>
#include <stdint.h>

/* The parts of a recording. */
struct keep {
    uint64_t part;      /* a part ends when its file has so many bytes; 0 = no parts */
    uint64_t begun;     /* number of events before the newest part */
    uint64_t before;    /* number of events in the part before it */
    uint64_t discarded; /* number of events in the parts that were replaced */
};

/* Return the state for files of at most `max_size` bytes in all. */
struct keep keep_for(uint64_t max_size);
/* Return true if another part should begin, and can begin at this point of the trace. */
bool keep_is_due(const struct keep *k, const struct mt_writer *w);
/* End the current part and begin another: *s and *w are replaced. Returns NULL, or the reason why this is not
 * possible; then *s and *w are unchanged. If the definitions and live blocks with which a part begins leave
 * too little room, this part becomes the last one and its size is limited. */
const char *keep_begin_part(struct keep *k, struct sink *s, struct mt_writer **w,
                            const struct mt_writer_options *options, const char *process);
/* Write a line about the parts for the user. Returns false if there is only one part. */
bool keep_summary(const struct keep *k, const struct sink *s, const struct mt_writer *w, char *text,
                  size_t room);

#endif
