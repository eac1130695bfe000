/* ending.h - how a recording has ended.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each part of the recorder says only what it has seen: the records, the ring's header, the writer. What that means is
 * decided here, and nowhere else.
 */
#ifndef COLLECTOR_ENDING_H
#define COLLECTOR_ENDING_H

#include "memtrace/memtrace.h"
#include <stdbool.h>
#include <stdint.h>

/* What is known when no more records come. */
struct ending_known {
    bool native; /* it is a recording of the native library */
    bool forked; /* its process is a forked child */
    bool draft;  /* the child has not done more so far than to record some events */
    /* The records: whether there was an END, and the ending that they say. */
    bool has_end;
    enum mt_ending said;
    /* The ring's header. */
    bool begun;
    uint32_t ended, exiting;
    int status;
    /* The writer: how many events came after the limit of the file. */
    uint64_t dropped;
};

struct ending {
    enum mt_ending ending;
    /* The fact that says how the program has ended, and its value; NULL = that is not known. */
    const char *fact;
    uint32_t value;
    enum {
        ENDING_PUBLISH,
        ENDING_DISCARD /* the child did nothing else */,
        ENDING_REMOVE /* nothing was recorded */
    } file;
    const char *note; /* a line for the user; NULL = none */
};

struct ending ending_of(const struct ending_known *k);

#endif
