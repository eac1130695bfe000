/* recorder.h - functions that the benchmark's programs call for each access and allocation.
 *
 * Events are first stored and then passed to a writer, so that the time of the programs themselves is not measured. A
 * heap event is stored as an access of one of the sites below FIRST_SITE.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef BENCH_RECORDER_H
#define BENCH_RECORDER_H

#include "memtrace/memtrace.h"

enum { EVENT_NEW = 0, EVENT_FREE = 1, FIRST_SITE = 8, LAST_SITE = 4096 };

struct recording {
    uint32_t *sites;
    uint64_t *addrs;
    uint64_t *sizes; /* sizes of the News */
    size_t count, capacity, news;
};

void record(struct recording *r, uint32_t site, const void *addr);
void *record_malloc(struct recording *r, size_t size);
void record_free(struct recording *r, void *p);
void recording_free(struct recording *r);

/* Pass the recording to a writer. Odd sites are loads, every fourth is a modify, the others are stores. */
void recording_write(const struct recording *r, struct mt_writer *w);

/* The programs. Each records about n events. */
struct program {
    const char *name;
    void (*run)(struct recording *r, size_t n);
};
extern const struct program programs[];

#endif
