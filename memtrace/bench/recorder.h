/* recorder.h - what the benchmark's programs call for each access and allocation; keeps or writes them.
 *
 * Events are collected first and replayed into a writer afterwards, so that the programs' own time is not
 * measured. A heap event is kept as an access of one of the sites below FIRST_SITE.
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
    uint64_t *sizes; /* of News */
    size_t count, capacity, news;
};

void record(struct recording *r, uint32_t site, const void *addr);
void *record_malloc(struct recording *r, size_t size);
void record_free(struct recording *r, void *p);
void recording_free(struct recording *r);

/* Write the recording through a writer; odd sites are loads, every fourth a modify, the others stores. */
void recording_write(const struct recording *r, struct mt_writer *w);

/* The programs. Each records about n events. */
struct program {
    const char *name;
    void (*run)(struct recording *r, size_t n);
};
extern const struct program programs[];

#endif
